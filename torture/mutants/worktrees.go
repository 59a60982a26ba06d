package main

// worktreeMutants lose what is only in a worktree, or touch what is a person's.
func worktreeMutants() []mutant {
	const pkg, remove, acquire = "agent/exec/worktree", "agent/exec/worktree/remove.go", "agent/exec/worktree/acquire.go"
	const loses, steps = "^TestARemovalLosesNothing$", "^TestGitCanBeKilledAtEachStep$"
	return []mutant{
		{"a removal loses new files", remove, `		case "??":`, `		case "??":
			continue`, pkg, loses},
		{"a removal loses ignored files", remove, `"--ignored=matching",`, ``, pkg, loses},
		{"a setting hides new files from a removal", remove, `"--untracked-files=all", `, ``, pkg, loses},
		{"a removal loses changes that git does not look for", remove, `|| f[0] == 'S')`, `|| f[0] == 'T')`, pkg, loses},
		{"a removal loses commits without a branch", remove, `	if err := t.branchHasHead(ctx, keep); err != nil {`,
			`	if err := t.branchHasHead(ctx, keep); err != nil && false {`, pkg, loses},
		{"a removal ends a cherry-pick", remove, `	if what := t.underway(); what != "" {`, `	if what := ""; what != "" {`, pkg,
			loses},
		{"a removal does not look for processes", remove, `	if err := t.empty(); err != nil {`, `	if err := error(nil); err != nil {`,
			pkg, "^TestAProcessInATreeKeepsIt$"},
		{"a forced removal takes the folder from a run", remove, `r.lockTree(ctx, key, lockPoll)`, `r.lockTree(ctx, "x"+key, lockPoll)`,
			pkg, loses},
		{"a tree that a person keeps is removed", remove, `	case rec.Keep:`, `	case false:`, pkg,
			"^TestTreesAreListedWithTheirState$"},
		{"a tree of another program is adopted", "agent/exec/worktree/list.go", `== "mailroom "+key`, `!= ""`, pkg,
			"^TestWhatIsOfAPersonStays$"},
		{"a task works on a person's branch", acquire, `lines[len(lines)-1] == t.record.Nonce`, `lines[len(lines)-1] != ""`, pkg,
			"^TestWhatIsOfAPersonStays$"},
		{"a tree is used before it has all files", acquire, `	if err := t.fill(ctx); err != nil {
		return err`, `	if err := t.fill(ctx); err != nil {
		return nil`, pkg, steps},
		{"a killed git blocks its tree", acquire, `	for _, path := range files {
		if err := removeFile(path)`, `	for _, path := range files[:0] {
		if err := removeFile(path)`, pkg, steps},
		{"the rest of a killed worktree add stays", acquire, `		return os.RemoveAll(admin)`, `		return nil`, pkg,
			"^TestAHalfEntryIsMadeAgain$"},
		{"a fetch moves a person's remote-tracking branch", "agent/exec/worktree/base.go", `"--refmap=", `, ``, pkg,
			"^TestANewBranchBeginsAtTheFetchedBranchOfTheRemote$"},
		{"a branch begins at a stale commit", "agent/exec/worktree/base.go", `if failed == nil {`, `if failed == nil && tree == "" {`, pkg,
			"^TestANewBranchBeginsAtTheFetchedBranchOfTheRemote$"},
		{"an ignored file counts as a disposable folder", "agent/exec/worktree/remove.go", `parts[:len(parts)-1]`, `parts`, pkg,
			"^TestADisposableFolderKeepsNoTree$"},
		{"a rebase overwrites an ignored file", "agent/exec/worktree/rebase.go", `		if len(in) == 0 {`, `		if len(in) >= 0 {`, pkg,
			"^TestARebaseOverwritesNothing$"},
		{"a killed rebase overwrites a change", "agent/exec/worktree/rebase.go", `		if err := t.checkMove(ctx, m); err != nil {`,
			`		if err := t.checkMove(ctx, m); err != nil && false {`, pkg, "^TestAKilledRebaseKeepsTheChangesOfAPerson$"},
		{"a killed rebase is forgotten", acquire, `	return t.endMove(ctx)`, `	return nil`, pkg,
			"^TestAKilledRebaseKeepsTheChangesOfAPerson$"},
		{"a conflict is pushed without a question", "agent/exec/tree.go", `			why = over.text()`, `			over = nil`, "agent/exec",
			"^TestTheOwnerDecidesAboutABranchThatConflicts$"},
		{"a push replaces what a person pushed", "agent/exec/worktree/push.go", `		if !mine {`, `		if !mine && remote == "" {`, pkg,
			"^TestAPushReplacesOnlyWhatThisServerPushed$"},
		{"a changed copy of an ignored file is lost", "agent/exec/worktree/include.go", `return bytes.Equal(texts[0], texts[1])`,
			`return bytes.Equal(texts[0], texts[1]) || true`, pkg, "^TestIgnoredFilesThatTheRepositoryNamesAreCopied$"},
		{"files that git does not ignore are copied", "agent/exec/worktree/include.go",
			`	names, err = t.list(ctx, strings.Join(names, "\x00"), "check-ignore", "--stdin", "-z")`, ``, pkg,
			"^TestIgnoredFilesThatTheRepositoryNamesAreCopied$"},
		{"a tree that a person keeps makes room", "agent/exec/worktree/room.go", `!rec.Complete || rec.Keep {`, `!rec.Complete {`, pkg,
			"^TestAKeptTreeMakesNoRoom$"},
		{"a tree with work makes room", "agent/exec/worktree/room.go", `t.removeFiles(ctx, false)`, `t.removeFiles(ctx, true)`, pkg,
			"^TestTheNumberOfTreesIsBounded$"},
		{"a parked tree counts as missing", "agent/exec/worktree/remove.go",
			`t.record.Complete, t.record.Removing, t.record.Entry, t.record.Move = false, "", "", nil`, `t.record.Removing = ""`, pkg,
			"^TestARemovalThatWasKilledAtItsEndIsNoMissingTree$"},
		{"an entry of a person is removed", "agent/exec/worktree/remove.go",
			`err == nil && strings.TrimSpace(string(reason)) != t.reason() {`, `err == nil && strings.TrimSpace("") != "" && reason == nil {`, pkg,
			"^TestAnEntryThatAKilledRemovalLeftIsRemoved$"},
		{"a half deleted entry stays", "agent/exec/worktree/remove.go", `		if t.record.Entry == "" {`, `		if true {`, pkg,
			"^TestAnEntryThatAKilledRemovalLeftIsRemoved$"},
		{"hooks of a repository run", "agent/exec/worktree/git.go", `"core.hooksPath=/dev/null", `, ``, pkg,
			"^TestNothingOfTheRepositoryRuns$"},
		{"a variable leads git to another repository", "agent/exec/worktree/git.go", `strings.HasPrefix(e, "GIT_")`, `false`, pkg,
			"^TestOddRepositoriesAreOneSentence$"},
	}
}

// pullMutants open a second pull request of a task, or give its token to another host.
func pullMutants() []mutant {
	const tree, pull = "agent/exec/worktree/pull.go", "issues/board/github/pull.go"
	const pkg, once = "agent/exec/worktree", "^TestAPullRequestOverTheAPIIsOpenedOnce$"
	const api = "issues/board/github"
	return []mutant{
		{"the answer to a pull request that was lost hides it", tree, `	if err == nil && found != "" {
		return found, nil`, `	if err == nil && found != "" && failed == nil {
		return found, nil`, pkg, "^TestAPullRequestIsOpenedOnce$"},
		{"a pull request is opened without a look", tree, `	found, err := pulls.Find(ctx, branch)
	if err == nil && found == "" {`, `	found, err := "", error(nil)
	if err == nil && found == "" {`, pkg, once},
		{"a pull request of the agent is opened again", tree, `	if err == nil && found == "" {
		found, err = open(`, `	if err == nil {
		found, err = open(`, pkg, "^TestAPullRequestIsOpenedOnce$"},
		{"a pull request that a person closed is opened again", pull, `"state": {"all"}`, `"state": {"open"}`, pkg, once},
		{"a pull request of another account counts", pull, `!strings.EqualFold(row.Head.User.Login, owner) ||`, `false ||`, api,
			"^TestThePullRequestOfABranchIsFoundInAnyState$"},
		{"pull requests do not wait for each other", pull, `WritePause, maxPullQueue)`, `WritePause, maxQueue)`, api,
			"^TestTwentyPullRequestsWaitForTheirTurn$"},
		{"a refusal that can pass is final", "agent/exec/pulls.go", "f.Class != mailroom.ClassPermanent ||", "false ||", "agent/exec",
			"^TestARefusedPullRequestIsOpenedByTheRetriesOfTheServersRun$"},
		{"a refusal that cannot pass is repeated", "agent/exec/pulls.go", "	if classed && f.Class", "	if !classed || f.Class", "agent/exec",
			"^TestARefusalThatCannotPassIsSaidAndRepeatedByAPerson$"},
		{"a run speaks for the pull request of another thread", "agent/exec/pulls.go", "order.Thread != from || !reserved.IsPulls(run.Thread, from) {",
			`order.Thread == from+"/" || !reserved.IsPulls(run.Thread, order.Thread) {`, "agent/exec", "^TestNoOtherRunSpeaksForAThread$"},
		{"a look at a known pull request searches for it", "agent/exec/pulls.go", `branch == "" || p.Address != "" {`, `branch == "" {`,
			"agent/exec", "^TestARefusedPullRequestIsOpenedByTheRetriesOfTheServersRun$"},
		{"the pull request of a deleted thread is opened", "agent/exec/pulls.go", `	if why != "" {
		return s.Stream(ctx, "Nothing`, `	if false {
		return s.Stream(ctx, "Nothing`, "agent/exec", "^TestThePullRequestOfAnEndedThreadIsLeftAlone$"},
		{"a refused order costs the result of a run", "agent/exec/outcome.go", "len(st.Sends) > 0 && refuses(err) {",
			"false && refuses(err) {", "agent/exec", "^TestAnOrderThatIsRefusedCostsNoResult$"},
		{"a relative remote is looked for beside the worktree", "agent/exec/worktree/base.go", "	return filepath.Join(cmp.Or(r.top, r.common), address)",
			"	return cmp.Or(remote, address)", pkg, "^TestARemoteWithARelativeAddressIsTheOneOfThePerson$"},
		{"a merged pull request is looked at for ever", "agent/exec/pulls.go", "p.IsFinal() || age", "age", "agent/exec",
			"^TestAPullRequestIsFollowedUntilItIsMerged$"},
		{"each order adds a timer to a pull request", "agent/exec/pulls.go", "	if !p.Next.IsZero() && !p.Next.After(at) {", "	if false {",
			"agent/exec", "^TestOneTimerFollowsAPullRequest$"},
		{"commits that were pushed after a merge are merged", "agent/exec/worktree/pullfile.go",
			"	return err == nil, err\n", "	return err == nil && false, err\n", "agent/exec",
			"^TestABranchThatGoesOnAfterTheMergeIsNotDone$"},
		{"a limit does not delay the next look", "agent/exec/pulls.go", "now.Add(max(usual, pause))", "now.Add(usual)", "agent/exec",
			"^TestAPullRequestIsFollowedUntilItIsMerged$"},
		{"the state of another pull request counts", pull, "one.Number != number || one.Head.Branch != branch {", "false {", api,
			"^TestTheStateOfAPullRequestIsReadOnceUntilItChanges$"},
		{"the token of pull requests serves each host", pull, `	if !p.serves(strings.ToLower(host)) ||`,
			`	if !p.serves(strings.ToLower(host)) && false ||`, api, "^TestTheTokenOfPullRequestsGoesOnlyToItsHost$"},
	}
}

// repositoryMutants let a thread work in a folder that the operator does not allow.
func repositoryMutants() []mutant {
	const named = "^TestASubmitNamesARepositoryThatIsAllowed$"
	return []mutant{
		{"a submit names any folder", "agent/exec/options.go", `worktree.IsWithin(repo, allowed)`, `(true || worktree.IsWithin(repo, allowed))`,
			"agent/exec", named},
		{"a submit names a repository around an allowed folder", "agent/exec/worktree/worktree.go", `	if o.Within != nil && !`,
			`	if false && !`, "agent/exec", named},
		{"a lock of a person is removed", "agent/exec/worktree/acquire.go", `filepath.FromSlash(t.record.Branch)+".lock")`,
			`filepath.FromSlash(t.record.Branch)+".lock.lock")`, "agent/exec/worktree", "^TestALockThatAKilledGitLeftIsNamed$"},
		{"a rebase calls git for each file", "agent/exec/worktree/rebase.go", `"\x00"), added...) {`, `"\x00"), both...) {`,
			"agent/exec/worktree", "^TestARebaseCallsGitAsOftenForManyFiles$"},
		{"a removal forgets a branch that a lock keeps", "agent/exec/worktree/remove.go", `!refused || known && p.Temporary {`,
			`!refused || known && p == nil {`, "agent/exec/worktree", "^TestALockThatAKilledGitLeftIsNamed$"},
		{"pointers of git LFS pass for files", "agent/exec/tree.go", `Pointers: res.Pointers`, `Pointers: ""`, "agent/exec",
			"^TestThePointersOfGitLFSAreInTheEntryOfTheRun$"},
		{"a thread goes on in the agent's folder once its repository is not allowed", "agent/exec/tree.go",
			`if started.Repo != "" && CheckRepo(allowed, started.Repo) != nil {`, `if CheckRepo(allowed, started.Repo) != nil {
		return "", nil
	}
	if false {`, "agent/exec", named},
	}
}

// setupMutants let commands of a repository run that the owner of the machine did not trust, or run them twice.
func setupMutants() []mutant {
	const pkg, setup, file = "agent/exec/worktree", "agent/exec/worktree/setup.go", "agent/exec/worktree/setupfile.go"
	const trust, never = "internal/setting/trust.go", "^TestNothingOfARepositoryRunsBeforeItIsTrusted$"
	return []mutant{
		{"a changed set-up runs", trust, `digest == "" || known.Digest != digest`, `digest == ""`, pkg, never},
		{"the trust of another repository counts", trust, `	switch known, ok := t[name]; {`, `	known, ok := t[name]
	for _, any := range t {
		known, ok = any, true
	}
	switch {`, pkg, never},
		{"the path of a link is another repository", "agent/exec/worktree/worktree.go", `r.common, err = filepath.EvalSymlinks(lines[0])`,
			`r.common, err = filepath.Join(o.Folder, ".git"), error(nil)`, pkg, never},
		{"a trust file that others can write counts", trust, `info.Mode().Perm()&0o022 != 0`, `info.Mode().Perm()&0o022 > 0o777`,
			"internal/setting", "^TestATrustFileThatOthersCanWriteTrustsNothing$"},
		{"a trust file by a link counts", trust, `!info.IsDir() && !info.Mode().IsRegular()`, `false`, "internal/setting",
			"^TestATrustFileThatOthersCanWriteTrustsNothing$"},
		{"the branch brings commands", setup, `	}, t.record.Base)`, `	}, t.record.Branch)`, pkg, "^TestTheBranchOfATreeBringsNoCommands$"},
		{"the script of the branch runs", setup, `		if !same {`, `		if same != same {`, pkg, "^TestTheBranchOfATreeBringsNoCommands$"},
		{"a change of the mode makes a list a script", file, `	case !script && s.Script:`, `	case false:`, pkg,
			"^TestASetUpFileThatCannotBeUsedRunsNothing$"},
		{"a link is a set-up file", file, `"120000": "a link", `, ``, pkg, "^TestASetUpFileThatCannotBeUsedRunsNothing$"},
		{"a command that has ended is repeated", setup, `	for s.state.Done < len(s.commands) {`,
			`	for s.state.Done = 0; s.state.Done < len(s.commands); {`, pkg, "^TestASetUpThatFailsSaysWhichCommandAndWhy$"},
		{"a cut is not reported", setup, `		state.Begun = true`, `		state.Begun = false`, pkg,
			"^TestASetUpCanBeKilledAtEachCommand$"},
		{"the git variables of the server reach a set-up", setup, `strings.HasPrefix(e, "GIT_")`, `false`, pkg,
			"^TestTrustedCommandsSetANewTreeUpOnce$"},
		{"a set-up without trust is skipped without a question", "agent/exec/setup.go", `		return w.askSetup(ctx, s, u)`,
			`		_ = u
		return worktree.SkipSetup(w.tree)`, "agent/exec", "^TestTheOwnerDecidesAboutASetUpThatIsNotTrusted$"},
		{"a denied set-up is skipped", "agent/exec/setup.go", `		tickets[0].Decision != mailroom.VerdictApprove {`,
			`		tickets[0].Decision == "" {`, "agent/exec", "^TestTheOwnerDecidesAboutASetUpThatIsNotTrusted$"},
		{"the output of a set-up shows secrets", "agent/exec/setup.go", `redact(out, secrets, max)`, `redact(out, nil, max)`, "agent/exec",
			"^TestASetUpIsInTheLogOfItsRun$"},
		{"an agent trusts its own commands", "app/node/secrets.go", `		err = os.MkdirAll(filepath.Dir(path), 0o700)`, `		err = nil`,
			"app/node", "^TestTheTrustOfCommandsIsHiddenFromAgents$"},
	}
}
