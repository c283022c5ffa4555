import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;

/**
 * Curator's InterProcessMutex under the loads of bench_load_test.go, which says what each number means.
 *
 * <p>Usage: BenchCurator CONNECT SESSION_MS. Prints "ready", then answers each line on standard input with one of its own:
 *
 * <pre>
 * run SESSIONS LOCKS WORKERS PERIOD_MS HOLD_MS PREFIX    CYCLES CHANGES HANDOFF_MICROS
 * join SESSIONS WAITERS PATH                             joining   (one more holds the lock, and they line up behind it)
 * drain                                                  SECONDS   (from the holder's release to the last waiter's)
 * </pre>
 *
 * An answer that begins with "error" says what went wrong.
 */
public final class BenchCurator {
    private final String servers;
    private final int sessionMillis;
    private final List<CuratorFramework> sessions = new ArrayList<>();
    private Crowd crowd;

    private BenchCurator(String servers, int sessionMillis) {
        this.servers = servers;
        this.sessionMillis = sessionMillis;
    }

    public static void main(String[] args) throws Exception {
        BenchCurator bench = new BenchCurator(args[0], number(args[1]));
        bench.connect(1);
        System.out.println("ready");
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            try {
                System.out.println(bench.answer(line.split(" ")));
            } catch (Throwable e) {
                System.out.println("error " + e.toString().replace('\n', ' '));
            }
        }
        System.exit(0); // sessions end with it; closing each would only take longer
    }

    private String answer(String[] words) throws Exception {
        switch (words[0]) {
            case "run":
                connect(number(words[1]));
                return run(number(words[1]), number(words[2]), number(words[3]), number(words[4]), number(words[5]), words[6]);
            case "join":
                connect(number(words[1]));
                crowd = new Crowd(number(words[1]), number(words[2]), words[3]);
                return "joining";
            case "drain":
                return crowd.drain();
            default:
                throw new IllegalArgumentException(words[0]);
        }
    }

    private static int number(String s) {
        return Integer.parseInt(s);
    }

    private void connect(int n) throws Exception {
        while (sessions.size() < n) {
            sessions.add(CuratorClient.connect(servers, sessionMillis));
        }
    }

    /** What happens under one lock. Nothing but the lock guards the plain fields. */
    private static final class Sideline {
        final AtomicInteger inside = new AtomicInteger();
        final AtomicInteger overlaps = new AtomicInteger();
        int count;
        int last;
        long leaving;

        /** Begins a turn. leave gets the count that it returns. */
        int enter() {
            if (inside.incrementAndGet() != 1) {
                overlaps.incrementAndGet();
            }
            return count;
        }

        void leave(int number) {
            count = number + 1;
            inside.decrementAndGet();
        }

        void check(int turns) {
            Check.that(overlaps.get() == 0 && count == turns,
                    "two held the lock at once: its counter says " + count + " after " + turns + " turns");
        }
    }

    private String run(int sessionCount, int locks, int workers, int periodMillis, int holdMillis, String prefix) throws Exception {
        InterProcessMutex[] mutexes = new InterProcessMutex[workers];
        for (int w = 0; w < workers; w++) {
            mutexes[w] = new InterProcessMutex(sessions.get(w % sessionCount), "/bench/" + prefix + "-" + w % locks);
        }
        together(locks, w -> {
            mutexes[w].acquire();
            mutexes[w].release();
        });
        Sideline[] sidelines = new Sideline[locks];
        Arrays.setAll(sidelines, i -> new Sideline());
        int[] cycles = new int[workers];
        int[] changes = new int[workers];
        int[] turns = new int[workers];
        List<List<Long>> handoffs = new ArrayList<>();
        for (int w = 0; w < workers; w++) {
            handoffs.add(new ArrayList<>());
        }
        long end = System.nanoTime() + periodMillis * 1_000_000L;
        together(workers, w -> {
            Sideline s = sidelines[w % locks];
            while (System.nanoTime() < end) {
                mutexes[w].acquire();
                long now = System.nanoTime();
                int n = s.enter();
                if (s.last != 0 && s.last != w + 1) {
                    handoffs.get(w).add(now - s.leaving);
                    if (now < end) {
                        changes[w]++;
                    }
                }
                s.last = w + 1;
                if (holdMillis > 0) {
                    Thread.sleep(holdMillis);
                }
                s.leaving = System.nanoTime();
                s.leave(n);
                turns[w]++;
                mutexes[w].release();
                if (System.nanoTime() < end) {
                    cycles[w]++;
                }
            }
        });
        for (int i = 0; i < locks; i++) {
            int want = 0;
            for (int w = i; w < workers; w += locks) {
                want += turns[w];
            }
            sidelines[i].check(want);
        }
        List<Long> all = new ArrayList<>();
        handoffs.forEach(all::addAll);
        all.sort(null);
        double median = all.isEmpty() ? 0 : all.get(all.size() / 2) / 1e3;
        return Arrays.stream(cycles).sum() + " " + Arrays.stream(changes).sum() + " " + median;
    }

    private interface Work {
        void run(int i) throws Exception;
    }

    private static void together(int n, Work work) throws Exception {
        AtomicReference<Throwable> failed = new AtomicReference<>();
        Thread[] threads = new Thread[n];
        for (int i = 0; i < n; i++) {
            threads[i] = start(work, i, failed);
        }
        for (Thread t : threads) {
            t.join();
        }
        if (failed.get() != null) {
            throw new Exception(failed.get());
        }
    }

    private static Thread start(Work work, int i, AtomicReference<Throwable> failed) {
        Thread t = new Thread(null, () -> {
            try {
                work.run(i);
            } catch (Throwable e) {
                failed.compareAndSet(null, e);
            }
        }, "worker", 256 << 10);
        t.setDaemon(true);
        t.start();
        return t;
    }

    /** Many waiters behind one holder. */
    private final class Crowd {
        final InterProcessMutex holder;
        final Sideline guarded = new Sideline();
        final int number; // that the holder saw
        final int turns;
        final CountDownLatch done;
        final AtomicReference<Throwable> failed = new AtomicReference<>();

        Crowd(int sessionCount, int waiters, String path) throws Exception {
            holder = new InterProcessMutex(sessions.get(0), "/bench/" + path);
            holder.acquire();
            number = guarded.enter();
            turns = waiters + 1;
            done = new CountDownLatch(waiters);
            for (int i = 0; i < waiters; i++) {
                InterProcessMutex mutex = new InterProcessMutex(sessions.get(i % sessionCount), "/bench/" + path);
                start(w -> {
                    try {
                        mutex.acquire();
                        guarded.leave(guarded.enter());
                        mutex.release();
                    } finally {
                        done.countDown();
                    }
                }, i, failed);
            }
        }

        String drain() throws Exception {
            long began = System.nanoTime();
            guarded.leave(number);
            holder.release();
            Check.that(done.await(10, TimeUnit.MINUTES), "the crowd is still waiting");
            if (failed.get() != null) {
                throw new Exception(failed.get());
            }
            double seconds = (System.nanoTime() - began) / 1e9;
            guarded.check(turns);
            return Double.toString(seconds);
        }
    }
}
