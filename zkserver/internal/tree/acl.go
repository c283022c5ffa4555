package tree

import (
	"slices"

	"holdfast/zkproto"
)

// openACL is world:anyone with all permissions: what nearly every node has, so all
// of them share one.
var openACL = []zkproto.ACL{{Perms: zkproto.PermAll, Scheme: "world", ID: "anyone"}}

var readOnlyACL = []zkproto.ACL{{Perms: zkproto.PermRead, Scheme: "world", ID: "anyone"}}

// checkACL takes out duplicates and refuses what this server could not enforce: a
// node that its creator believes protected must not be open to everyone.
func checkACL(acl []zkproto.ACL) ([]zkproto.ACL, zkproto.Code) {
	if len(acl) == 0 {
		return nil, zkproto.CodeInvalidACL
	}
	for _, a := range acl {
		if a.Scheme != "world" || a.ID != "anyone" {
			return nil, zkproto.CodeInvalidACL
		}
	}
	return sharedACL(acl), zkproto.CodeOK
}

func sharedACL(acl []zkproto.ACL) []zkproto.ACL {
	if slices.Equal(acl, openACL) {
		return openACL
	}
	var unique []zkproto.ACL
	for _, a := range acl {
		if !slices.Contains(unique, a) {
			unique = append(unique, a)
		}
	}
	return unique
}

// permits reports whether everyone may do perm. An entry of a scheme that is not
// known here grants nothing.
func permits(acl []zkproto.ACL, perm int32) bool {
	for _, a := range acl {
		if a.Scheme == "world" && a.ID == "anyone" && a.Perms&perm != 0 {
			return true
		}
	}
	return false
}
