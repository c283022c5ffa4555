import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.locks.InterProcessLock;
import org.apache.curator.framework.recipes.locks.InterProcessMultiLock;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreMutex;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;

/** Mutual exclusion, each of a number in a file. */
final class LockRecipes {
    private static final int TURNS = 20;

    private final Recipes all;
    private final CuratorFramework client;

    LockRecipes(Recipes all) {
        this.all = all;
        client = all.client;
    }

    void run() throws Exception {
        turns("mutex", new InterProcessMutex(client, Recipes.ROOT + "/mutex"), true);
        turns("semaphore-mutex", new InterProcessSemaphoreMutex(client, Recipes.ROOT + "/semaphore-mutex"), false);
        turns("multi-lock", new InterProcessMultiLock(client, List.of(Recipes.ROOT + "/multi-a", Recipes.ROOT + "/multi-b")), false);
        readWriteLock();
        semaphore();
    }

    private void turns(String step, InterProcessLock lock, boolean restarts) throws Exception {
        Recipes.Number number = all.new Number(step);
        all.together(step);
        for (int i = 0; i < TURNS; i++) {
            acquire(lock, step);
            try {
                if (restarts && i == TURNS / 2) {
                    int before = number.get();
                    all.restart(); // with the lock held
                    Check.equal(number.get(), before, "number while the server was away");
                }
                number.add();
            } finally {
                lock.release();
            }
        }
        all.passed(step, number, TURNS * all.roles);
    }

    private static void acquire(InterProcessLock lock, String step) throws Exception {
        Check.that(lock.acquire(Recipes.WAIT_SECONDS, TimeUnit.SECONDS), "acquired " + step);
    }

    private void readWriteLock() throws Exception {
        InterProcessReadWriteLock lock = new InterProcessReadWriteLock(client, Recipes.ROOT + "/read-write");
        Recipes.Number number = all.new Number("read-write");
        all.together("read-write");
        for (int i = 0; i < TURNS; i++) {
            if (i % 2 == 0) {
                acquire(lock.writeLock(), "write lock");
                number.add();
                int mine = number.get();
                acquire(lock.readLock(), "read lock of the writer");
                lock.writeLock().release();
                Check.equal(number.get(), mine, "number after the writer became a reader");
            } else {
                acquire(lock.readLock(), "read lock");
                int before = number.get();
                Thread.sleep(2);
                Check.equal(number.get(), before, "number under a read lock");
            }
            lock.readLock().release();
        }
        all.passed("read-write", number, TURNS / 2 * all.roles);
    }

    private void semaphore() throws Exception {
        int most = all.roles - 1;
        InterProcessSemaphoreV2 semaphore = new InterProcessSemaphoreV2(client, Recipes.ROOT + "/semaphore", most);
        Path inside = all.directory.resolve("inside");
        Files.createDirectories(inside);
        all.together("semaphore");
        for (int i = 0; i < TURNS; i++) {
            Lease lease = semaphore.acquire(Recipes.WAIT_SECONDS, TimeUnit.SECONDS);
            Check.that(lease != null, "a lease of the semaphore");
            Path mine = Files.createFile(inside.resolve(Integer.toString(all.role)));
            try (Stream<Path> holders = Files.list(inside)) {
                long n = holders.count();
                Check.that(n <= most, n + " leases of " + most);
            }
            Thread.sleep(1);
            Files.delete(mine);
            semaphore.returnLease(lease);
        }
        all.together("semaphore-passed");
        Check.passed("semaphore");
    }
}
