// Package login decides who a client is, and whether a client has authenticated as the server
// requires. It knows names, hashes and bounds, and nothing of connections and requests. It is
// pure, except for the nonce of a challenge.
//
// [Users] are the users of the configuration (users.go). A client proves an [tree.Identity] by the
// scheme digest ([Users.ByDigest]), by SASL DIGEST-MD5 ([Exchange]) or by a certificate
// ([OfCertificate]). An address needs no proof ([OfAddress]). [Add] keeps the identities of
// one connection within their bounds.
//
// Nothing here locks: [Users] do not change once they are made, and an [Exchange] belongs to one
// goroutine, the server's owner.
package login
