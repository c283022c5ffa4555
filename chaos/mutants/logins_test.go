package mutants

// ofLogins are bugs of logins, see zkserver/internal/login.
func ofLogins() []mutant {
	const pkg = "zkserver/internal/login"
	return []mutant{
		{
			number: 225, bug: "a user that does not exist comes in with an empty hash", where: "–",
			edits: []edit{{"zkserver/internal/login/sasl.go", "return name, d.Proof(), right && exists", "return name, d.Proof(), right && (exists || true)"}},
			pkg:   pkg, tests: []string{"TestAnExchangeIsGoodForOneProof"},
		},
		{
			number: 226, bug: "a nonce is good for any number of guesses", where: "–",
			edits: []edit{{"zkserver/internal/login/sasl.go", "\t*x = Exchange{done: true} // a nonce", "\tx.done = ok // a nonce"}},
			pkg:   pkg, tests: []string{"TestAnExchangeIsGoodForOneProof"},
		},
		{
			number: 227, bug: "one user acts for another", where: "–",
			edits: []edit{{"zkserver/internal/login/sasl.go", `case d.AuthzID != "" && d.AuthzID != name:`, "case false:"}},
			pkg:   pkg, tests: []string{"TestAnExchangeIsGoodForOneProof"},
		},
		{
			number: 228, bug: "where digest is required, any password opens the door", where: "–",
			edits: []edit{{"zkserver/internal/login/users.go", `!u.Requires("digest") || u.isUser(id)`, `!u.Requires("digest") || u.isUser(id) || true`}},
			pkg:   pkg, tests: []string{"TestByDigest"},
		},
		{
			number: 229, bug: "a user with another password stays connected", where: "–",
			edits: []edit{{"zkserver/internal/login/users.go", "u.byName[id.ID] != old.byName[id.ID],", `u.byName[id.ID].digest == "",`}},
			pkg:   pkg, tests: []string{"TestKnows"},
		},
		{
			number: 230, bug: "a login changes the identities that the tree has", where: "–",
			edits: []edit{{"zkserver/internal/login/identity.go", "return append(ids[:len(ids):len(ids)], id), true", "return append(ids, id), true"}},
			pkg:   pkg, tests: []string{"TestAddDoesNotChangeWhatTheTreeHas"},
		},
		{
			number: 231, bug: "the identities of a connection have no bound together", where: "–",
			edits: []edit{{"zkserver/internal/login/identity.go", "if size > maxTotalBytes {", "if false {"}},
			pkg:   pkg, tests: []string{"TestAddKeepsTheBounds"},
		},
		{
			number: 232, bug: "a client without the required login is served", where: "–",
			edits: []edit{{"zkserver/auth.go", "\treturn true\n}\n\n// refuse", "\treturn false\n}\n\n// refuse"}},
			pkg:   "zkserver", tests: []string{"TestWhoMustAuthenticateMayDoNothingBefore", "TestWhatIsRequiredOpensTheDoor"},
		},
		{
			number: 233, bug: "a login that exceeds a bound is accepted", where: "–",
			edits: []edit{{"zkserver/auth.go", "\"bytes\", login.Size(id))\n\t\t\treturn false", "\"bytes\", login.Size(id))\n\t\t\treturn true"}},
			pkg:   "zkserver", tests: []string{"TestIdentitiesAreBounded", "TestAConnectionHasABoundedNumberOfIdentities"},
		},
		{
			number: 234, bug: "a new requirement does not apply to connected clients", where: "–",
			edits: []edit{{"zkserver/auth.go", "s.setAdmitted(c, users.Admits(c.owned.identities))", "_ = users.Admits(c.owned.identities)"}},
			pkg:   "zkserver", tests: []string{"TestSetUsersDemandsWhatIsNew"},
		},
		{
			number: 864, bug: "a SASL mechanism of another package is told the address and not the name of the server", where: "–",
			edits: []edit{{"zk/client.go", "authenticate(ctx, nc, t.host, c.cfg.Auth)", "authenticate(ctx, nc, nc.RemoteAddr().String(), c.cfg.Auth)"}},
			pkg:   "zk", tests: []string{"TestMechanismOfAnotherPackage"},
		},
	}
}
