package mutants

// ofPages are those of the page: of its access layer, and of the actions.
func ofPages() []mutant {
	return []mutant{
		{
			number: 780, bug: "the one-time URL of the page works twice", where: "–",
			edits: []edit{{"ui/access_login.go", "\t\tif valid {\n\t\t\ta.token = \"\"\n\t\t}\n", ""}, {"ui/access_login.go", "\t\ta.renewToken()\n\t}\n\tredirect(", "\t}\n\tredirect("}},
			pkg:   "ui", tests: []string{"TestTheOneTimeURLWorksOnce"},
		},
		{
			number: 781, bug: "an empty token logs in once the token is used up", where: "–",
			edits: []edit{{"ui/access_login.go", "valid := a.token != \"\" && subtle", "valid := given == \"\" || subtle"}},
			pkg:   "ui", tests: []string{"TestTheOneTimeURLWorksOnce"},
		},
		{
			number: 782, bug: "a prefetch uses the one-time URL up", where: "–",
			edits: []edit{{"ui/access_login.go", "strings.Contains(v, \"prefetch\")", "strings.Contains(v, \"never\")"}},
			pkg:   "ui", tests: []string{"TestPrefetchDoesNotUseTheURL"},
		},
		{
			number: 783, bug: "a host is local if its name begins with 127.", where: "OpenCoven/coven#145",
			edits: []edit{{"ui/access.go", "if strings.EqualFold(host, \"localhost\") {", "if strings.EqualFold(host, \"localhost\") || strings.HasPrefix(host, \"127.\") {"}},
			pkg:   "ui", tests: []string{"TestForeignHostsAreRefused"},
		},
		{
			number: 784, bug: "the name of the host is not looked at, so a name that resolves here reads the pages", where: "CVE-2018-5702",
			edits: []edit{{"ui/access.go", "if !a.hostAllowed(r) {", "if r.Method == http.MethodPost && !a.hostAllowed(r) {"}},
			pkg:   "ui", tests: []string{"TestForeignHostsAreRefused"},
		},
		{
			number: 785, bug: "a POST that does not say from which site it comes is taken for our own", where: "–",
			edits: []edit{{"ui/access.go", "if r.Header.Get(\"Origin\") == \"\" && r.Header.Get(\"Sec-Fetch-Site\") == \"\" {", "if r.Header.Get(\"Origin\") == \"x\" {"}},
			pkg:   "ui", tests: []string{"TestRequestsOfOtherSitesAreRefused"},
		},
		{
			number: 786, bug: "a page of another site can act", where: "–",
			edits: []edit{{"ui/access.go", "if err := a.cross.Check(r); err != nil {", "if err := a.cross.Check(r); err != nil && r.URL.Path == \"/login\" {"}},
			pkg:   "ui", tests: []string{"TestRequestsOfOtherSitesAreRefused"},
		},
		{
			number: 787, bug: "a cookie is good as long as the process lives", where: "–",
			edits: []edit{{"ui/access_login.go", "if l != nil && time.Now().Before(l.expires) {", "if l != nil {"}},
			pkg:   "ui", tests: []string{"TestALoginEnds"},
		},
		{
			number: 788, bug: "a stream of events goes on after the login has ended", where: "–",
			edits: []edit{{"ui/access.go", "defer context.AfterFunc(l.ctx, cancel)()", "_ = l.ctx"}},
			pkg:   "ui", tests: []string{"TestALoginEnds"},
		},
		{
			number: 789, bug: "a viewer acts", where: "–",
			edits: []edit{{"ui/act.go", "case !userOf(r).mayAct():", "case userOf(r).Role == \"\":"}},
			pkg:   "ui", tests: []string{"TestWhoMayNotAct"},
		},
		{
			number: 790, bug: "a read-only page hides the buttons, and acts", where: "–",
			edits: []edit{
				{"ui/access.go", "\t\tif a.cfg.ReadOnly {\n\t\t\tp.Role = Viewer\n\t\t}\n", ""}, {"ui/access_login.go", "\t\tif a.cfg.ReadOnly {\n\t\t\trole = Viewer\n\t\t}\n", ""},
				{"ui/act.go", "\tcase s.access.cfg.ReadOnly:", "\tcase s.access.cfg.ReadOnly && r.Method == http.MethodGet:"},
			},
			pkg: "ui", tests: []string{"TestWhoMayNotAct"},
		},
		{
			number: 791, bug: "what a proxy says of the address gives new attempts to log in", where: "CVE-2024-51504",
			edits: []edit{{"internal/htpasswd/gate.go", "\tap, err := netip.ParseAddrPort(r.RemoteAddr)\n", "\tif f := r.Header.Get(\"X-Forwarded-For\"); f != \"\" {\n\t\treturn f\n\t}\n\tap, err := netip.ParseAddrPort(r.RemoteAddr)\n"}},
			pkg:   "ui", tests: []string{"TestGuessesAreLimited"},
		},
		{
			number: 792, bug: "a flood of addresses locks out new ones", where: "ours until 28 November",
			edits: []edit{{"internal/guess/guess.go", "{h % slots, h >> 32 % slots}", "{h % 64, h >> 32 % 64}"}},
			pkg:   "internal/guess", tests: []string{"TestAFloodOfAddressesChangesNothing"},
		},
		{
			number: 793, bug: "a link fills in the form of an action", where: "–",
			edits: []edit{{"ui/act.go", "s.look(ctx, w, r, a, r.PostForm)", "s.look(ctx, w, r, a, r.Form)"}, {"ui/act.go", "r.PostForm.Get(\"reason\")", "r.Form.Get(\"reason\")"}},
			pkg:   "ui", tests: []string{"TestWhoMayNotAct"},
		},
		{
			number: 794, bug: "the page breaks the lock of the next holder", where: "–",
			edits: []edit{{"ui/act.go", "\tp, err := deed.Look(ctx, s.client, a, path, nil, token) ", "\tif all, _ := holdfast.List(ctx, s.client, path); len(all) > 0 {\n\t\ttoken = all[0].Token\n\t}\n\tp, err := deed.Look(ctx, s.client, a, path, nil, token) "}},
			pkg:   "ui", tests: []string{"TestTheNextHolderIsSafe"},
		},
		{
			number: 795, bug: "an owner's name is markup on the page of an action", where: "–",
			edits: []edit{{"ui/ui.go", "\t\"html/template\"\n", "\t\"text/template\"\n"}},
			pkg:   "ui", tests: []string{"TestMarkupIsText"},
		},
		{
			number: 796, bug: "a login leads to another site", where: "–",
			edits: []edit{{"ui/access_login.go", "strings.HasPrefix(target, \"//\") || ", ""}, {"ui/access_login.go", "u.Scheme != \"\" || u.Host != \"\" || u.User != nil || ", ""}, {"ui/access_login.go", "return (&url.URL{Path: u.Path, RawPath: u.RawPath, RawQuery: u.Query().Encode()}).String()", "return target"}},
			pkg:   "ui", tests: []string{"TestRedirectsStayHere"},
		},
		{
			number: 797, bug: "a client that sends its header slowly keeps its connection", where: "–",
			edits: []edit{{"ui/access.go", "\t\tReadHeaderTimeout: 5 * time.Second,\n\t\tReadTimeout:       10 * time.Second,\n", ""}},
			pkg:   "ui", tests: []string{"TestSlowClientsAreCut"},
		},
		{
			number: 798, bug: "TLS without users is enough for an address that other machines reach", where: "–",
			edits: []edit{{"ui/access.go", "(!cfg.TLS || cfg.Users == nil)", "!cfg.TLS"}},
			pkg:   "ui", tests: []string{"TestOpenAddressesNeedTLSAndUsers"},
		},
		{
			number: 799, bug: "an action from the page is in no audit", where: "–",
			edits: []edit{{"internal/deed/act.go", "\treturn Audited(ctx, c, line, by, func() error {", "\tif by.Remote != \"\" {\n\t\treturn Record{}, p.Action.apply(ctx, c, p.Path, p.Token)\n\t}\n\treturn Audited(ctx, c, line, by, func() error {"}},
			pkg:   "ui", tests: []string{"TestOperatorsAct"},
		},
		{
			number: 845, bug: "a tab is told of a change up to a minute late", where: "–",
			edits: []edit{{"ui/hub.go", "at = next\n", "at = next.Add(time.Minute)\n"}},
			pkg:   "ui", tests: []string{"TestTabsAreMarkedTogether"},
		},
		{
			number: 872, bug: "a large page that was shown from memory is not read again when the locks come to rest", where: "–",
			edits: []edit{{"ui/page.go", "	if !old.IsZero() {\n		u.state.hub.markAt(old)\n", "	if false {\n		u.state.hub.markAt(old)\n"}},
			pkg:   "ui", tests: []string{"TestAnOldPageIsReadAgain"},
		},
		{
			number: 873, bug: "a viewer gets the page that was made for an operator", where: "–",
			edits: []edit{{"ui/page.go", ", acts: f.Acts,\n", ",\n"}},
			pkg:   "ui", tests: []string{"TestPagesOfOthersAreNotShared"},
		},
		{
			number: 878, bug: "a page that took long to make is shown without the banner after contact was lost", where: "–",
			edits: []edit{{"ui/page.go", "stale: v.contact.Stale, why: v.contact.Why,", ""}},
			pkg:   "ui", tests: []string{"TestASlowPageGetsTheBanner"},
		},
		{
			number: 879, bug: "a tab does not show a deadlock if the page was made with an older graph", where: "–",
			edits: []edit{{"ui/page.go", "		version-- // so that", "		// so that"}},
			pkg:   "ui", tests: []string{"TestTheLastMarkBringsTheNewGraph"},
		},
		{
			number: 880, bug: "after contact was regained, the locks of before are shown as new", where: "–",
			edits: []edit{{"ui/state.go", "			v.contact = v.then\n", ""}},
			pkg:   "ui", tests: []string{"TestOldLocksKeepTheBanner"},
		},
		{
			number: 874, bug: "each tab has the page rendered for itself", where: "ours until 27 November",
			edits: []edit{{"ui/page.go", "		if f.Flash != \"\" {", "		if true {"}},
			pkg:   "ui", tests: []string{"TestManyTabsNeedOneRendering"},
		},
		{
			number: 846, bug: "the page shows the probe of doctor, and a run of a Once, as locks", where: "ours until 26 November",
			edits: []edit{{"internal/locks/at.go", " && !noLock(path[:i], path[i+1:])", " && i >= 0"}},
			pkg:   "internal/locks", tests: []string{"TestNodesOfOtherLibraries"},
		},
		{
			number: 847, bug: "the page lists a directory for each lock in it", where: "ours until 26 November",
			edits: []edit{{"internal/locks/read.go", "\t_, ok := r.look(path)\n", "\tn, ok := r.look(path)\n\tif ok {\n\t\tn.Children()\n\t}\n"}},
			pkg:   "internal/locks", tests: []string{"TestInListsNoSiblings"},
		},
		{
			number: 848, bug: "the end of a session takes the locks that it has acquired since the question", where: "ours until 26 November",
			edits: []edit{{"ui/act_end.go", "\tcase fresh != nil:\n", "\tcase fresh != nil && fresh.Session == 0:\n"}},
			pkg:   "ui", tests: []string{"TestASessionThatChangesIsNotEnded"},
		},
		{
			number: 849, bug: "a viewer can make the page read all locks from the server, again and again", where: "ours until 26 November",
			edits: []edit{{"ui/act_end.go", "\tif why := s.cannot(r); why != \"\" {\n\t\ts.access.refuse(w, r, http.StatusForbidden, why, \"The page", "\tif why := s.cannot(r); why != \"\" && s.client == nil {\n\t\ts.access.refuse(w, r, http.StatusForbidden, why, \"The page"}},
			pkg:   "ui", tests: []string{"TestViewersHaveNoForm"},
		},
		{
			number: 850, bug: "the page believes a server that does not hear from its leader", where: "ours until 26 November",
			edits: []edit{{"ui/state.go", "err = session.Sync(within, s.base)", "_, _, err = session.Exists(within, s.base)"}},
			pkg:   "ui", tests: []string{"TestAServerThatLagsProvesNothing"},
		},
	}
}
