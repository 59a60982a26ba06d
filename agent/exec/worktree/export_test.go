package worktree

// ParseCommands is parseCommands.
func ParseCommands(text string) ([][]string, error) { return parseCommands(text) }
