"""kazoo's Lock under the loads of bench_load_test.go, which says what each number means.

Usage: bench_kazoo.py HOST:PORT SESSION_SECONDS. Prints "ready", then answers each line on standard input
with one of its own:

    run SESSIONS LOCKS WORKERS PERIOD_MS HOLD_MS PREFIX    CYCLES CHANGES HANDOFF_MICROS

An answer that begins with "error" says what went wrong.
"""

import sys
import threading
import time

from kazoo.client import KazooClient


class Sideline:
    """What happens under one lock; nothing but the lock guards it."""

    def __init__(self):
        self.inside = 0
        self.count = 0
        self.last = None
        self.leaving = 0.0
        self.overlapped = False


def together(n, work):
    failures = []

    def guarded(i):
        try:
            work(i)
        except Exception as e:
            failures.append("%r" % e)

    threads = [threading.Thread(target=guarded, args=(i,), daemon=True) for i in range(n)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if failures:
        raise RuntimeError(failures[0])


def run(clients, lock_count, workers, period, hold, prefix):
    locks = [clients[w % len(clients)].Lock("/bench/%s-%d" % (prefix, w % lock_count)) for w in range(workers)]

    def first(w):
        with locks[w]:
            pass

    together(lock_count, first)
    sidelines = [Sideline() for _ in range(lock_count)]
    turns, cycles, changes = [0] * workers, [0] * workers, [0] * workers
    handoffs = []
    end = time.monotonic() + period

    def work(w):
        s = sidelines[w % lock_count]
        while time.monotonic() < end:
            locks[w].acquire()
            now = time.monotonic()
            s.inside += 1
            if s.inside != 1:
                s.overlapped = True
            if s.last is not None and s.last != w:
                handoffs.append(now - s.leaving)
                changes[w] += now < end
            s.last = w
            n = s.count
            if hold:
                time.sleep(hold)
            s.count = n + 1
            s.leaving = time.monotonic()
            s.inside -= 1
            turns[w] += 1
            locks[w].release()
            if time.monotonic() < end:
                cycles[w] += 1

    together(workers, work)
    for i, s in enumerate(sidelines):
        want = sum(turns[i::lock_count])
        if s.overlapped or s.count != want:
            raise RuntimeError("two held the lock at once: its counter says %d after %d turns" % (s.count, want))
    handoffs.sort()
    return sum(cycles), sum(changes), handoffs[len(handoffs) // 2] * 1e6 if handoffs else 0


def main():
    clients = []

    def connect(n):
        while len(clients) < n:
            clients.append(KazooClient(sys.argv[1], timeout=float(sys.argv[2])))
            clients[-1].start(20)

    connect(1)
    print("ready", flush=True)
    for line in sys.stdin:
        try:
            what, sessions, locks, workers, period, hold, prefix = line.split()
            if what != "run":
                raise ValueError(what)
            connect(int(sessions))
            answer = run(clients[: int(sessions)], int(locks), int(workers), int(period) / 1e3, int(hold) / 1e3, prefix)
            print("%d %d %.1f" % answer, flush=True)
        except Exception as e:
            print("error %r" % e, flush=True)


main()
