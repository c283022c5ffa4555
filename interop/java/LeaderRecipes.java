import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.leader.LeaderSelector;
import org.apache.curator.framework.recipes.leader.LeaderSelectorListenerAdapter;

/** One leader at a time, and everybody in the end. */
final class LeaderRecipes {
    private static final int TERMS = 3;

    private final Recipes all;

    LeaderRecipes(Recipes all) {
        this.all = all;
    }

    void run() throws Exception {
        latch();
        selector();
    }

    private void latch() throws Exception {
        Path throne = all.directory.resolve("throne");
        Recipes.Number terms = all.new Number("latch");
        all.together("latch");
        for (int i = 0; i < TERMS; i++) {
            try (LeaderLatch latch = new LeaderLatch(all.client, Recipes.ROOT + "/latch", "role" + all.role)) {
                latch.start();
                Check.that(latch.await(Recipes.WAIT_SECONDS, TimeUnit.SECONDS), "became leader");
                Files.createFile(throne); // fails if another is leader
                Check.equal(latch.getLeader().getId(), "role" + all.role, "leader");
                terms.add();
                Files.delete(throne);
            }
        }
        all.passed("latch", terms, TERMS * all.roles);
    }

    private void selector() throws Exception {
        Recipes.Number terms = all.new Number("selector");
        CountDownLatch left = new CountDownLatch(TERMS);
        AtomicReference<Exception> failed = new AtomicReference<>();
        all.together("selector");
        LeaderSelectorListenerAdapter listener = new LeaderSelectorListenerAdapter() {
            @Override
            public void takeLeadership(CuratorFramework client) {
                try {
                    if (left.getCount() > 0) {
                        terms.add();
                    }
                } catch (Exception e) {
                    failed.set(e);
                }
                left.countDown();
            }
        };
        try (LeaderSelector selector = new LeaderSelector(all.client, Recipes.ROOT + "/selector", listener)) {
            selector.autoRequeue();
            selector.start();
            Check.that(left.await(Recipes.WAIT_SECONDS, TimeUnit.SECONDS), "led " + TERMS + " times");
        }
        Check.that(failed.get() == null, "a leader failed: " + failed.get());
        all.passed("selector", terms, TERMS * all.roles);
    }
}
