"""Holds a lock of kazoo until it is killed.

Usage: kill_lock.py HOST:PORT PATH FILE. It prints "waits" when it is connected, and, when it holds the lock, a line as
testdata/witness.c does. FILE is locked meanwhile.
"""

import fcntl
import sys
import time

from kazoo.client import KazooClient


def main():
    client = KazooClient(sys.argv[1])
    client.start()
    lock = client.Lock(sys.argv[2])
    print("waits", flush=True)
    lock.acquire()
    began = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    witness = open(sys.argv[3], "a")
    busy = 0
    try:
        fcntl.flock(witness, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        busy = 1
    print("began %d 0 %d\nready" % (began, busy), flush=True)
    time.sleep(1000)


main()
