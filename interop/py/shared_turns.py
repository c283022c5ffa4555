"""Takes turns on locks that others use too, each recipe on a lock of its own.

While a turn lasts, a file in the lock's directory says who holds it and how; who finds
there what it must not bear fails.

Usage: shared_turns.py HOST:PORT TURNS RECIPE PATH DIR [RECIPE PATH DIR]... Prints "ready"
when connected and starts at the first line on standard input.
"""

import os
import sys
import threading
import time

from kazoo.client import KazooClient

PERMITS = 3
failures = []


def hold(directory, mode, turn):
    """W is alone, R is beside R only, and P beside less than so many others."""
    mine = "%s-python-%d-%d" % (mode, os.getpid(), turn)
    open(os.path.join(directory, mine), "x").close()
    others = [f for f in os.listdir(directory) if f != mine]
    if mode == "W":
        fine = not others
    elif mode == "R":
        fine = all(f.startswith("R") for f in others)
    else:
        fine = len(others) < PERMITS
    if not fine:
        failures.append("%s beside %s" % (mine, others))
    time.sleep(0.001)
    os.remove(os.path.join(directory, mine))


def take(client, recipe, path, directory, turns):
    try:
        if recipe == "mixed":  # among nodes of go-zookeeper's form
            lock = client.Lock(path, "kazoo", extra_lock_patterns=["-lock-"])
        elif recipe == "writer":
            lock = client.WriteLock(path, "kazoo")
        elif recipe == "semaphore":
            lock = client.Semaphore(path, "kazoo", max_leases=PERMITS)
        else:
            lock = client.Lock(path, "kazoo")
        for turn in range(turns):
            if recipe == "election":
                client.Election(path, "kazoo").run(hold, directory, "W", turn)
                continue
            with lock:
                hold(directory, "P" if recipe == "semaphore" else "W", turn)
    except Exception as e:
        failures.append("%s: %r" % (recipe, e))


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
