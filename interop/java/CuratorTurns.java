import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;

/**
 * Takes turns on a lock that others use too: each turn adds one to the number in a file, slowly enough that two
 * holders at once lose an update.
 *
 * <p>Usage: CuratorTurns CONNECT LOCK TURNS FILE. Prints "ready" when connected and starts at the first line on
 * standard input, so that all who share the queue start together.
 */
public final class CuratorTurns {
    private CuratorTurns() {}

    public static void main(String[] args) throws Exception {
        int turns = Integer.parseInt(args[2]);
        Path file = Paths.get(args[3]);
        try (CuratorFramework client = CuratorClient.connect(args[0])) {
            InterProcessMutex mutex = new InterProcessMutex(client, args[1]);
            System.out.println("ready");
            System.in.read();
            for (int i = 0; i < turns; i++) {
                Check.that(mutex.acquire(60, TimeUnit.SECONDS), "turn " + i + ": no lock in a minute");
                try {
                    int n = Integer.parseInt(Files.readString(file).trim());
                    Thread.sleep(1);
                    Files.writeString(file, Integer.toString(n + 1));
                } finally {
                    mutex.release();
                }
            }
        }
        Check.passed("turns");
    }
}
