"""What kazoo asks of a server: creates, watches, deletes, transactions, a lock.

Usage: kazoo_client.py HOST:PORT ROOT. One line "ok STEP" per step; a failed
check ends it with an exception.
"""

import queue
import re
import sys
import threading

from kazoo.client import KazooClient
from kazoo.exceptions import BadVersionError, NodeExistsError, NoNodeError, NotEmptyError, RolledBackError
from kazoo.protocol.states import EventType

WAIT = 20  # seconds; nothing here takes nearly as long


def check(ok, what):
    if not ok:
        raise AssertionError(what)


def equal(got, want, what):
    check(got == want, "%s: got %r; want %r" % (what, got, want))


def raises(error, f, *args, **kwargs):
    try:
        f(*args, **kwargs)
    except error:
        return
    raise AssertionError("%s%r did not raise %s" % (f.__name__, args, error.__name__))


def creates(client, root):
    client.ensure_path(root)
    equal(client.create(root + "/p", b"1"), root + "/p", "persistent")
    equal(client.create(root + "/e", b"2", ephemeral=True), root + "/e", "ephemeral")
    s = client.create(root + "/s-", b"3", sequence=True)
    es = client.create(root + "/es-", b"4", sequence=True, ephemeral=True)
    deep, stat = client.create(root + "/a/b/c", b"5", makepath=True, include_data=True)
    check(re.fullmatch(root + r"/s-\d{10}", s), s)
    check(re.fullmatch(root + r"/es-\d{10}", es), es)
    check(int(es[-10:]) > int(s[-10:]), "sequence grows: %s, %s" % (s, es))
    equal((deep, stat.dataLength), (root + "/a/b/c", 1), "create with stat")
    session = client.client_id[0]
    for path, data, owner in ((root + "/p", b"1", 0), (root + "/e", b"2", session), (s, b"3", 0), (es, b"4", session)):
        got, stat = client.get(path)
        equal((got, stat.ephemeralOwner, stat.version), (data, owner, 0), path)
    raises(NodeExistsError, client.create, root + "/p")
    raises(NoNodeError, client.create, root + "/none/x")
    equal(sorted(client.get_children(root)), sorted(["p", "e", "a", s.split("/")[-1], es.split("/")[-1]]), "children")


def watches(client, root):
    path = root + "/watched"
    events = queue.Queue()

    def expect(event_type, where):
        event = events.get(timeout=WAIT)
        equal((event.type, event.path), (event_type, where), "event")

    check(client.exists(path, watch=events.put) is None, "not there yet")
    client.create(path, b"1")
    expect(EventType.CREATED, path)
    client.get(path, watch=events.put)
    client.set(path, b"2", version=0)
    expect(EventType.CHANGED, path)
    raises(BadVersionError, client.set, path, b"3", version=0)
    client.get_children(path, watch=events.put)
    client.create(path + "/child")
    expect(EventType.CHILD, path)
    raises(NotEmptyError, client.delete, path)
    client.delete(path + "/child")
    client.exists(path, watch=events.put)
    client.delete(path, version=1)
    expect(EventType.DELETED, path)
    check(events.empty(), "a watch fires once")

    # The recipe that kazoo's users meet first: it sets its watch again by itself.
    seen = queue.Queue()
    client.ensure_path(path)
    client.ChildrenWatch(path, lambda children: seen.put(sorted(children)))
    equal(seen.get(timeout=WAIT), [], "first call")
    for want in (["a"], ["a", "b"]):
        client.create(path + "/" + want[-1])
        equal(seen.get(timeout=WAIT), want, "children seen")


def transactions(client, root):
    path = root + "/transaction"
    t = client.transaction()
    t.create(path, b"1")
    t.check(path, version=0)
    t.set_data(path, b"2")
    t.create(path + "/child")
    t.delete(path + "/child")
    results = t.commit()
    equal((results[0], results[1], results[2].version, results[3], results[4]), (path, True, 1, path + "/child", True), "results")
    equal(client.get(path)[0], b"2", "data")

    t = client.transaction()
    t.set_data(path, b"3")
    t.check(path, version=7)
    t.delete(path)
    results = t.commit()
    equal([type(r) for r in results[:2]], [RolledBackError, BadVersionError], "refused")
    equal(client.get(path)[0], b"2", "data after the refused transaction")


def lock(client, other, root):
    path = root + "/lock"
    mine, theirs = client.Lock(path, "me"), other.Lock(path, "them")
    check(mine.acquire(timeout=WAIT), "free lock")
    check(not theirs.acquire(blocking=False), "two hold one lock")
    got = threading.Event()

    def wait():
        if theirs.acquire(timeout=WAIT):
            got.set()
            theirs.release()

    waiter = threading.Thread(target=wait)
    waiter.start()
    while mine.contenders() != ["me", "them"]:
        pass
    check(not got.is_set(), "two hold one lock")
    mine.release()
    waiter.join()
    check(got.is_set(), "the waiter did not get the lock")
    equal(client.get_children(path), [], "left in the queue")


def deletes(client, other, root):
    gone = threading.Event()
    path = root + "/ends-with-its-session"
    other.create(path, ephemeral=True)
    check(client.exists(path, watch=lambda event: gone.set()), path)
    other.stop()
    check(gone.wait(WAIT), "the ephemeral node outlived its session")
    client.delete(root, recursive=True)
    check(client.exists(root) is None, root)


def main():
    host, root = sys.argv[1:]
    client, other = KazooClient(host), KazooClient(host)
    client.start(WAIT)
    other.start(WAIT)
    for step, args in (
        (creates, (client, root)),
        (watches, (client, root)),
        (transactions, (client, root)),
        (lock, (client, other, root)),
        (deletes, (client, other, root)),
    ):
        step(*args)
        print("ok", step.__name__, flush=True)
    client.stop()


main()
