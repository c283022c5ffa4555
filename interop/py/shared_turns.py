"""Takes turns on locks that others use too, each recipe on a lock of its own.

Every turn is written down in the lock's directory, one line when it begins and one before
it ends, with the node that stands for it; a turn that is alone also adds one to a number.

Usage: shared_turns.py HOST:PORT TURNS RECIPE PATH DIR [RECIPE PATH DIR]... Prints "ready"
when connected and starts at the first line on standard input.
"""

import os
import sys
import threading
import time

from kazoo.client import KazooClient
from kazoo.exceptions import LockTimeout

PERMITS = 3
PATIENCE = 0.05  # seconds until a reader gives up and comes again
failures = []


def note(directory, line):
    f = os.open(os.path.join(directory, "turns"), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(f, line.encode())
    os.close(f)


def read(number):
    with open(number) as f:
        return int(f.read())


def hold(client, directory, mode, node):
    """What a holder does; node is the path of its place in the queue."""
    name, number = os.path.basename(node), os.path.join(directory, "number")
    note(directory, "+ %s %s %d\n" % (mode, name, client.exists(node).czxid))
    before = read(number)
    time.sleep(0.001)  # for others to come in between
    if mode == "W":
        with open(number, "w") as f:
            f.write(str(before + 1))
    elif mode == "R" and read(number) != before:
        failures.append("the number went from %d to %d while a reader held the lock" % (before, read(number)))
    note(directory, "- %s %s\n" % (mode, name))


def take(client, recipe, path, directory, turns):
    try:
        if recipe == "mixed":  # among nodes of go-zookeeper's form
            lock = client.Lock(path, "kazoo", extra_lock_patterns=["-lock-"])
        elif recipe in ("writer", "rwlock"):
            lock = client.WriteLock(path, "kazoo")
        elif recipe == "semaphore":
            lock = client.Semaphore(path, "kazoo", max_leases=PERMITS)
        else:
            lock = client.Lock(path, "kazoo")
        reader = client.ReadLock(path, "kazoo")
        for turn in range(turns):
            if recipe == "election":
                election = client.Election(path, "kazoo")
                election.run(lambda: hold(client, directory, "W", path + "/" + election.lock.node))
            elif recipe == "semaphore":
                with lock:
                    hold(client, directory, "P", lock.create_path)
            elif recipe == "rwlock" and turn % 3 != 0:
                while not patiently(reader):
                    pass
                hold(client, directory, "R", path + "/" + reader.node)
                reader.release()
            else:
                with lock:
                    hold(client, directory, "W", path + "/" + lock.node)
    except Exception as e:
        failures.append("%s: %r" % (recipe, e))


def patiently(lock):
    try:
        return lock.acquire(timeout=PATIENCE)
    except LockTimeout:
        return False


def main():
    host, turns, rest = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
    client = KazooClient(host)
    client.start(20)
    print("ready", flush=True)
    sys.stdin.readline()
    threads = []
    for i in range(0, len(rest), 3):
        threads.append(threading.Thread(target=take, args=(client, rest[i], rest[i + 1], rest[i + 2], turns)))
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    client.stop()
    print("; ".join(failures) or "ok turns", flush=True)


main()
