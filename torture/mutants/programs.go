package main

// programMutants break what keeps programs of agents from the secrets of the server.
func programMutants() []mutant {
	const isolation = "^TestHiddenFilesCannotBeAccessed$"
	return []mutant{
		{"root divides a cgroup that was not delegated", "internal/proc/cgroup_linux.go", "case marked(dir), root(dir):", "case marked(dir), root(dir), true:", "internal/proc", "^TestACgroupIsDividedOnlyIfItIsDelegated$"},
		{"a child of root has no limit of processes", "internal/proc/cgroup_linux.go", "attr.UseCgroupFD, attr.CgroupFD = true, int(c.open.Fd())", "", "internal/proc", "^TestAChildStartsInACgroupWithItsLimit$"},
		{"a scan does not read the session of a child that has ended", "internal/proc/tree_linux.go",
			"err == nil && leader.start < t.since", "err != nil || leader.start < t.since",
			"internal/proc", "^TestATreeWithoutAMarkEnds$"},
		{"a server removes the cgroups of another one", "internal/proc/cgroup_linux.go", "errors.Is(syscall.Kill(pid, 0), syscall.ESRCH)", "pid > 0", "internal/proc", "^TestAChildStartsInACgroupWithItsLimit$"},
		{"secrets stay in the environment of the server", "app/node/secrets.go", "	if con.Unsetenv == nil {", "	if true {", "cmd/mailroom", "^TestSecretsLeaveTheEnvironmentOfTheServer$"},
		{"programs can read the memory of the server", "app/node/secrets.go", "errors.Join(proc.HideSelf(), proc.HideDescriptors())", "errors.Join(proc.HideDescriptors())", "app/node", "^TestASecretOfTheServerIsInNoReachOfItsPrograms$"},
		{"programs without isolation inherit descriptors", "app/node/secrets.go", "errors.Join(proc.HideSelf(), proc.HideDescriptors())", "errors.Join(proc.HideSelf())", "app/node", "^TestASecretOfTheServerIsInNoReachOfItsPrograms$"},
		{"an isolated program inherits descriptors of the server", "internal/proc/shim_linux.go", "if HideDescriptors() != nil {", "if false {", "internal/proc", "^TestAnIsolatedChildInheritsNoDescriptor$"},
		{"an isolated program has the terminal of the server", "internal/proc/shim_linux.go", "Sys: &syscall.SysProcAttr{Setsid: true, ", "Sys: &syscall.SysProcAttr{", "internal/proc", "^TestAChildHasNoTerminalOfItsParent$"},
		{"a hidden file that can be read is no reason to refuse the isolation", "internal/proc/shim_linux.go", "os.ReadFile(p.Probe); err == nil {", "os.ReadFile(p.Probe); err == nil && false {", "internal/proc", "^TestAnIsolationThatHidesNothingIsRefused$"},
		{"an isolated program dumps core", "internal/proc/shim_linux.go", "{unix.RLIMIT_CORE, 0, true},", "", "internal/proc", "^TestResourcesAreLimited$"},
		{"a program raises its own limits again", "internal/proc/shim_linux.go", "&syscall.Rlimit{Cur: to, Max: to}", "&syscall.Rlimit{Cur: to, Max: now.Max}", "internal/proc", "^TestResourcesAreLimited$"},
		{"a hidden folder can be written", "internal/proc/namespace_linux.go", "if err := unix.Mount(\"\", path, \"\", unix.MS_REMOUNT|unix.MS_RDONLY|flags, \"size=1m,mode=0755\"); err != nil {", "if err := error(nil); err != nil {", "internal/proc", isolation},
		{"a shown file can be written", "internal/proc/namespace_linux.go", "unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY|locked", "unix.MS_REMOUNT|unix.MS_BIND|locked", "internal/proc", isolation},
		{"a shown link shows what it leads to", "internal/proc/namespace_linux.go", "unix.Open(path, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)", "unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)", "internal/proc", isolation},
		{"a shown link shows what it leads to under Landlock", "internal/proc/landlock_linux.go", "unix.Open(path, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)", "unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)", "internal/proc", isolation},
		{"a program sees the processes of others", "internal/proc/namespace_linux.go", "if err := unix.Mount(\"proc\", \"/proc\", \"proc\", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, \"\"); err != nil {", "if err := error(nil); err != nil {", "internal/proc", "^TestAnIsolatedChildReachesNoOtherProcess$"},
		{"a file beside a hidden one is hidden under Landlock", "internal/proc/landlock_linux.go", "		default:\n			err = l.allow(path, l.file)", "		default:", "internal/proc", isolation},
		{"a program under Landlock signals the server", "internal/proc/landlock_linux.go", "	if version >= 6 {", "	if false {", "internal/proc", "^TestAnIsolatedChildReachesNoOtherProcess$"},
		{"a program of root traces other processes", "internal/proc/namespace_linux.go", "		19, // CAP_SYS_PTRACE\n", "", "internal/proc", "^TestAnIsolatedChildOfRootHasLimitedCapabilities$"},
		{"a program of root mounts", "internal/proc/namespace_linux.go", "		capSysAdmin,\n		24", "		24", "internal/proc", "^TestAnIsolatedChildOfRootHasLimitedCapabilities$"},
		{"a program gains capabilities by another program", "internal/proc/namespace_linux.go", "		if os.Geteuid() == 0 && !slices.Contains(some, c) {", "		if os.Geteuid() == 0 && !slices.Contains(some, c+lastCap) {", "internal/proc", "^TestAnIsolatedChildOfRootHasLimitedCapabilities$"},
		{"a secret that a link points to is hidden at its former place only", "internal/proc/shim_start_linux.go", "	i.Hide = withoutLinks(i.Hide)\n", "", "internal/proc", "^TestASecretThatWasReplacedIsHiddenFromTheNextChild$"},
		{"a program gets a secret that env_allow names", "app/node/sandbox.go", "return slices.Contains(l.withheld, name)", "return false", "app/node", "^TestSecretsBesideTheDataFolderAreHidden$"},
		{"a user of an agent is enough where others read the data folder", "app/node/sandbox.go", "a.User != \"\" && s.checkPrivate() == nil", "a.User != \"\"", "app/node", "^TestARemoteWorkerHasTheIsolationOfAnAgent$"},
		{"a program runs as root under the name of another user", "app/node/sandbox.go", "	if ids[0] == 0 {", "	if false {", "app/node", "^TestUserOfAnAgentIsChecked$"},
		{"a program that works in the data folder counts as isolated", "app/node/sandbox.go", "		case path == s.data:\n", "		case false:\n", "app/node", "^TestARemoteWorkerHasTheIsolationOfAnAgent$"},
		{"the place of a secret behind a link is not hidden", "app/node/sandbox.go", "range []string{resolvePath(path), given} {", "range []string{given} {", "app/node", "^TestSecretsBesideTheDataFolderAreHidden$"},
		{"the link to a secret is not hidden", "app/node/sandbox.go", "range []string{resolvePath(path), given} {", "range []string{resolvePath(path), resolvePath(given)} {", "app/node", "^TestSecretsBesideTheDataFolderAreHidden$"},
		{"secrets in short variables are redacted in any text", "agent/exec/env.go", "len(value) >= minSecret && !slices", "len(value) >= 1 && !slices", "agent/exec", "^TestOnlyLongValuesOfOtherVariablesAreSecrets$"},
		{"the values of ordinary variables are redacted", "agent/exec/env.go", " && !slices.Contains(DefaultEnvAllow(), name) {", " {", "agent/exec", "^TestOnlyLongValuesOfOtherVariablesAreSecrets$"},
		{"a secret in another encoding is shown", "agent/exec/env.go", "	return redactText(text, secrets) // secrets in UTF-16", "	return text // secrets in UTF-16", "agent/exec", "^FuzzRedact$"},
		{"a process of another run is killed", "agent/exec/env.go", "if id, _ := lookup(envRun); id != run.ID {", "if id, _ := lookup(envRun); id == \"\" {", "agent/exec", "^TestAProcessBelongsToTheRunInItsEnvironment$"},
	}
}
