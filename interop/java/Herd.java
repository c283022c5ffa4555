import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.SynchronousQueue;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.RetryOneTime;

/**
 * Many sessions that wait for one lock, each of which takes it once.
 *
 * <p>Usage: Herd CONNECT PATH SESSIONS. Prints "ready" when all are connected; they queue then. Prints "held" whenever
 * one of them has the lock, which it releases at the next line on standard input. Ends with standard input.
 */
public final class Herd {
    private static final int SESSION_MILLIS = 40000;

    private Herd() {}

    public static void main(String[] args) throws Exception {
        int sessions = Integer.parseInt(args[2]);
        List<CuratorFramework> clients = new ArrayList<>();
        for (int i = 0; i < sessions; i++) {
            CuratorFramework client = CuratorFrameworkFactory.newClient(args[0], SESSION_MILLIS, 15000, new RetryOneTime(100));
            client.start();
            clients.add(client);
        }
        for (CuratorFramework client : clients) {
            Check.that(client.blockUntilConnected(60, TimeUnit.SECONDS), "connected to " + args[0]);
        }
        System.out.println("ready");
        SynchronousQueue<String> turns = new SynchronousQueue<>();
        for (CuratorFramework client : clients) {
            Thread waiter = new Thread(null, () -> take(client, args[1], turns), "waiter", 256 << 10);
            waiter.setDaemon(true);
            waiter.start();
        }
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            turns.put(line);
        }
        Runtime.getRuntime().halt(0); // as a process that is killed
    }

    private static void take(CuratorFramework client, String path, SynchronousQueue<String> turns) {
        try {
            InterProcessMutex mutex = new InterProcessMutex(client, path);
            mutex.acquire();
            System.out.println("held");
            turns.take();
            mutex.release();
        } catch (Exception e) {
            System.out.println(e);
        }
    }
}
