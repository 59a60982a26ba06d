package main

// placeMutants break what bd promises about which tracker it uses, and who uses it.
func placeMutants() []mutant {
	const sessions = "^TestSessions$"
	return []mutant{
		{"the author of a repository chooses the tracker", "issues/bd/redirect.go", "!ownRedirect(path, r) && !f.trusts(r)", "false", "cmd/bd", sessions + "/^places$"},
		{"the author of a submodule chooses the tracker", "issues/bd/redirect.go", "		if at := filepath.Join(dir, \".git\"); exists(at) {\n			return dir, at\n		}\n", "", "cmd/bd", sessions + "/^places$"},
		{"a redirect that changed is still trusted", "issues/bd/trust.go", "digest != \"\" && list[name] == digest", "digest != \"\" && list[name] != \"\"", "cmd/bd", sessions + "/^places$"},
		{"a redirect that leads nowhere is ignored", "issues/bd/redirect.go", "	if !to.Exists() {\n", "	if !to.Exists() {\n		return place{}, nil\n	}\n	if false {\n", "cmd/bd", sessions + "/^places$"},
		{"a tracker of another form is passed over", "issues/bd/locate.go", "	return place{}, foreign(path)\n", "	return place{}, nil\n", "cmd/bd", sessions + "/^places$"},
		{"a merge drops a value without a word", "issues/tracker/past.go", "		contest(t, base, first, second, out)\n", "", "cmd/bd", sessions + "/^contests$"},
		{"two claims are merged without a word", "issues/tracker/past.go", "		contest(t, nil, first, second, out)\n", "", "cmd/bd", sessions + "/^contests$"},
		{"init gives a tracker another prefix", "issues/bd/create.go", "if prefix == \"\" && dir.Exists() {", "if false {", "cmd/bd", sessions + "/^places$"},
		{"a claim under the same name succeeds twice", "issues/bd/actor.go", "it.Status != tracker.StatusInProgress || it.Assignee != by.Actor", "true", "cmd/bd", sessions + "/^actors$"},
		{"agents of one user have one name", "issues/bd/actor.go", "if session := session(m.Env); session != \"\" {", "if session := \"\"; session != \"\" {", "cmd/bd", sessions + "/^actors$"},
		{"a hook of another version stops a commit", "issues/bd/main.go", "cmd == root && calledByHook(m.Env, args)", "false", "cmd/bd", sessions + "/^hooks$"},
		{"a merge driver that is not understood reports success", "issues/bd/main.go", "cmd == root && calledByHook(m.Env, args)", "calledByHook(m.Env, args)", "cmd/bd", sessions + "/^hooks$"},
	}
}
