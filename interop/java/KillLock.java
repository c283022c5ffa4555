import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.ExponentialBackoffRetry;

/**
 * Holds an InterProcessMutex until it is killed, with Curator's default timeouts.
 *
 * <p>Usage: KillLock CONNECT PATH COMMAND... It prints "waits" when it is connected, and starts the command when it holds
 * the lock. Java does not know the time since the boot, so the command is testdata/witness.c.
 */
public final class KillLock {
    private KillLock() {}

    public static void main(String[] args) throws Exception {
        try (CuratorFramework client = CuratorFrameworkFactory.newClient(args[0], new ExponentialBackoffRetry(1000, 3))) {
            client.start();
            client.blockUntilConnected();
            InterProcessMutex mutex = new InterProcessMutex(client, args[1]);
            System.out.println("waits");
            mutex.acquire();
            new ProcessBuilder(java.util.Arrays.copyOfRange(args, 2, args.length)).inheritIO().start();
            Thread.sleep(1_000_000);
        }
    }
}
