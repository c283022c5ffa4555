import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.leader.LeaderSelector;
import org.apache.curator.framework.recipes.leader.LeaderSelectorListenerAdapter;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.zookeeper.ZooDefs;
import org.apache.zookeeper.recipes.lock.LockListener;
import org.apache.zookeeper.recipes.lock.WriteLock;

/**
 * Takes turns on locks that others use too, each recipe on a lock of its own. Every turn is written down in the lock's
 * directory, one line when it begins and one before it ends, with the node that stands for it; a turn that is alone also
 * adds one to a number.
 *
 * <p>Usage: SharedTurns CONNECT TURNS RECIPE PATH DIR [RECIPE PATH DIR]... Prints "ready" when connected and starts at
 * the first line on standard input.
 */
public final class SharedTurns {
    private static final int PERMITS = 3;

    private SharedTurns() {}

    public static void main(String[] args) throws Exception {
        int turns = Integer.parseInt(args[1]);
        try (CuratorFramework client = CuratorClient.connect(args[0])) {
            System.out.println("ready");
            System.in.read();
            // Daemons: if one fails, the program ends, though others may wait for ever.
            ExecutorService threads = Executors.newCachedThreadPool(r -> {
                Thread t = new Thread(r);
                t.setDaemon(true);
                return t;
            });
            List<Future<Void>> all = new ArrayList<>();
            for (int i = 2; i < args.length; i += 3) {
                String recipe = args[i], path = args[i + 1];
                Path dir = Paths.get(args[i + 2]);
                all.add(threads.submit((Callable<Void>) () -> {
                    take(client, recipe, path, dir, turns);
                    return null;
                }));
            }
            for (Future<Void> f : all) {
                f.get();
            }
            threads.shutdown();
        }
        Check.passed("turns");
    }

    private static void take(CuratorFramework client, String recipe, String path, Path dir, int turns) throws Exception {
        InterProcessMutex mutex = new InterProcessMutex(client, path);
        InterProcessReadWriteLock rw = new InterProcessReadWriteLock(client, path);
        InterProcessSemaphoreV2 semaphore = new InterProcessSemaphoreV2(client, path, PERMITS);
        for (int i = 0; i < turns; i++) {
            switch (recipe) {
                case "mutex":
                    mutex.acquire();
                    hold(client, dir, "W", Nodes.of(mutex));
                    mutex.release();
                    break;
                case "rwlock":
                    InterProcessMutex side = i % 3 == 0 ? rw.writeLock() : rw.readLock();
                    side.acquire();
                    hold(client, dir, i % 3 == 0 ? "W" : "R", Nodes.of(side));
                    side.release();
                    break;
                case "semaphore":
                    Lease lease = semaphore.acquire();
                    hold(client, dir, "P", path + "/leases/" + lease.getNodeName());
                    semaphore.returnLease(lease);
                    break;
                case "writelock":
                    // It looks at the node ahead once, and if that is gone by then, nobody wakes it: so it is asked
                    // again from time to time.
                    CountDownLatch owner = new CountDownLatch(1);
                    WriteLock own = new WriteLock(client.getZookeeperClient().getZooKeeper(), path, ZooDefs.Ids.OPEN_ACL_UNSAFE,
                            new LockListener() {
                                @Override
                                public void lockAcquired() {
                                    owner.countDown();
                                }

                                @Override
                                public void lockReleased() {}
                            });
                    do {
                        own.lock();
                    } while (!owner.await(1, TimeUnit.SECONDS));
                    hold(client, dir, "W", own.getId());
                    own.unlock();
                    break;
                case "latch":
                    try (LeaderLatch latch = new LeaderLatch(client, path, "curator")) {
                        latch.start();
                        latch.await();
                        hold(client, dir, "W", latch.getOurPath());
                    }
                    break;
                case "selector":
                    int turn = i;
                    LeaderSelector[] itself = new LeaderSelector[1];
                    // An executor of our own, because close() interrupts a release that is under way.
                    ExecutorService work = Executors.newSingleThreadExecutor();
                    try (LeaderSelector selector = new LeaderSelector(client, path, work, new LeaderSelectorListenerAdapter() {
                        @Override
                        public void takeLeadership(CuratorFramework c) throws Exception {
                            hold(client, dir, "W", Nodes.of(itself[0]));
                        }
                    })) {
                        itself[0] = selector;
                        selector.start();
                        work.shutdown();
                        Check.that(work.awaitTermination(120, TimeUnit.SECONDS), "turn " + turn + ": no leadership in two minutes");
                    }
                    break;
                default:
                    throw new IllegalArgumentException(recipe);
            }
        }
    }

    /** What a holder does; node is the path of its place in the queue. */
    private static void hold(CuratorFramework client, Path dir, String mode, String node) throws Exception {
        String name = node.substring(node.lastIndexOf('/') + 1);
        Path number = dir.resolve("number");
        note(dir, "+ " + mode + " " + name + " " + client.checkExists().forPath(node).getCzxid() + "\n");
        String before = Files.readString(number);
        Thread.sleep(1); // for others to come in between
        if (mode.equals("W")) {
            Files.writeString(number, String.valueOf(Integer.parseInt(before) + 1));
        } else if (mode.equals("R")) {
            Check.equal(Files.readString(number), before, "the number, while a reader holds the lock,");
        }
        note(dir, "- " + mode + " " + name + "\n");
    }

    private static void note(Path dir, String line) throws Exception {
        Files.write(dir.resolve("turns"), line.getBytes(), StandardOpenOption.CREATE, StandardOpenOption.APPEND);
    }
}
