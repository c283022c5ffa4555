package holdfast

// revokeRequest is what Curator's Revoker writes into the node of a lock to ask its
// holder to let go.
const revokeRequest = "__REVOKE__"
