package main

// chatMutants break what channels promise about platforms: connections, whose words a text has, and silence.
func chatMutants() []mutant {
	return []mutant{
		{"one refusal of credentials that worked is final", "channel/reconnect.go", "	patient := s.proven && ", "	patient := false && ", "channel/irc", "^TestIRCIsAChannel$/^credentials_that_are_refused_for_a_moment$"},
		{"refusals never become final", "channel/reconnect.go", "(s.refusals < minRefusals || at.Sub(s.fatalSince) < p.FatalGrace)", "true", "channel", "^TestCredentialsThatWorkedAreGivenUpAfterMinutesOfRefusals$"},
		{"a failed channel is not probed", "channel/reconnect.go", "to, s.nextTry = ConditionFailed, e.at.Add(max(p.ProbeInterval, after))", "to, s.nextTry = ConditionFailed, time.Time{}", "channel/telegram", "^TestTelegramIsAChannel$/^credentials_that_are_refused_for_minutes$"},
		{"new credentials inherit the trust of old ones", "channel/reconnect.go", "		s.proven = false // other credentials may be in it\n", "", "channel", "^TestCredentialsThatWorkedAreGivenUpAfterMinutesOfRefusals$"},
	}
}
