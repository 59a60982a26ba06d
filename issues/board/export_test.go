package board

// MaxKnown is maxKnown.
const MaxKnown = maxKnown
