import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.barriers.DistributedBarrier;
import org.apache.curator.framework.recipes.queue.SimpleDistributedQueue;
import org.apache.curator.framework.recipes.shared.SharedCount;

/** A number, a barrier and a queue that all share. */
final class SharingRecipes {
    private static final int EACH = 20;

    private final Recipes all;
    private final CuratorFramework client;

    SharingRecipes(Recipes all) {
        this.all = all;
        client = all.client;
    }

    void run() throws Exception {
        count();
        barrier();
        queue();
    }

    private void count() throws Exception {
        try (SharedCount count = new SharedCount(client, Recipes.ROOT + "/count", 0)) {
            count.start();
            all.together("count");
            for (int added = 0; added < EACH; ) {
                if (count.trySetCount(count.getVersionedValue(), count.getCount() + 1)) {
                    added++;
                }
            }
            all.together("count-added");
            int want = EACH * all.roles;
            for (long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(Recipes.WAIT_SECONDS); count.getCount() != want; ) {
                Check.that(System.nanoTime() < end, "shared count is " + count.getCount() + "; want " + want);
                Thread.sleep(5); // its watch is on the way
            }
        }
        Check.passed("count");
    }

    private void barrier() throws Exception {
        DistributedBarrier barrier = new DistributedBarrier(client, Recipes.ROOT + "/barrier");
        Path open = all.directory.resolve("open");
        if (all.role == 0) {
            barrier.setBarrier();
        }
        all.together("barrier");
        if (all.role == 0) {
            Check.that(!barrier.waitOnBarrier(100, TimeUnit.MILLISECONDS), "the barrier holds");
            Files.createFile(open);
            barrier.removeBarrier();
        } else {
            Check.that(barrier.waitOnBarrier(Recipes.WAIT_SECONDS, TimeUnit.SECONDS), "the barrier went away");
            Check.that(Files.exists(open), "the barrier held until it was removed");
        }
        Check.passed("barrier");
    }

    private void queue() throws Exception {
        SimpleDistributedQueue queue = new SimpleDistributedQueue(client, Recipes.ROOT + "/queue");
        Path taken = Files.createDirectories(all.directory.resolve("taken"));
        all.together("queue");
        int items = EACH * (all.roles - 1);
        if (all.role == 0) {
            for (int i = 0; i < items; i++) {
                Check.that(queue.offer(new byte[] {(byte) i}), "offered");
            }
        } else {
            for (int i = 0, last = -1; i < EACH; i++) {
                byte[] item = queue.poll(Recipes.WAIT_SECONDS, TimeUnit.SECONDS);
                Check.that(item != null, "an item came");
                Check.that(item[0] > last, "items come in order: " + item[0] + " behind " + last);
                last = item[0];
                Files.createFile(taken.resolve(Integer.toString(last))); // fails if it came twice
            }
        }
        all.together("queue-passed");
        Check.that(queue.poll(1, TimeUnit.MILLISECONDS) == null, "the queue is empty");
        Check.passed("queue");
    }
}
