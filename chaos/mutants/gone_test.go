package mutants

// ofTheGone are bugs of views that do not say that a process is dead, or say it of others, and of sessions that nobody ends.
func ofTheGone() []mutant {
	views := []string{"-run=^TestScripts$/^process_gone_views$"}
	return []mutant{
		{
			number: 1710, bug: "ls does not say that the process of a holder is dead", where: "ours until 29 November",
			edits: []edit{{"internal/cli/see/lock.go", "\t\treturn owner + show.Gone(l.Queue[0])\n", "\t\treturn owner\n"}},
			pkg:   "internal/cli/see", tests: []string{"TestTablesSayWhoseProcessIsGone"},
		},
		{
			number: 1711, bug: "the queue in top and status does not say it of each place", where: "ours until 29 November",
			edits: []edit{{"internal/cli/see/status.go", "return l.Queue[i].Owner + show.Gone(l.Queue[i])", "return l.Queue[i].Owner + show.Gone(l.Queue[i])[:0]"}},
			pkg:   "internal/cli/top", tests: []string{"TestTopSaysThatAProcessIsGone"},
		},
		{
			number: 1712, bug: "graph says it of waiters alone", where: "–",
			edits: []edit{{"internal/cli/graph/document.go", "slices.ContainsFunc(slices.Concat(owner.Holds, owner.Waits),", "slices.ContainsFunc(slices.Clone(owner.Waits),"}},
			pkg:   "cmd/holdfast", tests: []string{"TestScripts"}, args: views,
		},
		{
			number: 1714, bug: "elect notes no process", where: "ours until 29 November",
			edits: []edit{{"election.go", "\tl.Queue.Process = o.note.Process\n", ""}},
			pkg:   "cmd/holdfast", tests: []string{"TestScripts"}, args: views,
		},
		{
			number: 1715, bug: "shard notes no process", where: "ours until 29 November",
			edits: []edit{{"internal/cli/hold/shard/shard.go", "shards.WithLock(hold.OfProcess()...)", "shards.WithLock(hold.OfProcess()[:0]...)"}},
			pkg:   "cmd/holdfast", tests: []string{"TestScripts"}, args: views,
		},
		{
			number: 1716, bug: "a process of another pid namespace, or of an earlier boot, is called gone", where: "–",
			edits: []edit{{"internal/proc/proc_linux.go", "func (g Group) gone() bool {\n\tif g.isHere() != nil {\n\t\treturn false\n\t}\n", "func (g Group) gone() bool {\n"}},
			pkg:   "internal/proc", tests: []string{"TestGoneIsOfTheVeryProcess"},
		},
		{
			number: 1713, bug: "a supervisor that dies between the end of its job and the release keeps the lock for the session timeout", where: "ours until 29 November",
			edits: []edit{{"internal/supervise/watchdog_linux.go", "\t\tw.run(o)\n\t\t<-w.gone ", "\t\tw.run(o)\n\t\torphaned := isClosed(w.gone)\n\t\t<-w.gone\n\t\tif !orphaned {\n\t\t\tw.will = \"\"\n\t\t}\n"}},
			pkg:   "cmd/holdfast", tests: []string{"TestScripts"}, args: []string{"-run=^TestScripts$/^crash_release$"},
		},
	}
}
