// Package login decides which identities a client has, and whether it has authenticated as the server
// requires. It knows names, hashes and bounds, but no connections and no requests. It is
// pure, except for the nonce of a challenge.
//
// [Users] are the users of the configuration (users.go). A client proves an [tree.Identity] by the
// scheme digest ([Users.ByDigest]), by SASL DIGEST-MD5 ([Exchange]) or by a certificate
// ([OfCertificate]). An address needs no proof ([OfAddress]). [Add] keeps the identities of
// one connection within their bounds.
//
// The package has no locks: [Users] never change, and an [Exchange] belongs to one
// goroutine, the server's owner.
package login
