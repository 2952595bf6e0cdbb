package ratekeeper.interop;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import org.redisson.api.RRateLimiter;

/** Load generator: several threads acquire as fast as possible for a time in milliseconds. */
final class Hammer {
    private Hammer() {
    }

    /** Returns the permits granted; each attempt asks for up to {@code most}, and every eighth one waits. */
    static long run(RRateLimiter limiter, int threads, long forMillis, long most) throws Exception {
        long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(forMillis);
        ExecutorService pool = Executors.newFixedThreadPool(threads);
        try {
            List<Future<Long>> counts = new ArrayList<>();
            for (int thread = 0; thread < threads; thread++) {
                counts.add(pool.submit(() -> ask(limiter, end, most)));
            }
            long granted = 0;
            for (Future<Long> count : counts) {
                granted += count.get();
            }
            return granted;
        } finally {
            pool.shutdown();
        }
    }

    private static long ask(RRateLimiter limiter, long end, long most) {
        long granted = 0;
        for (int turn = 0; System.nanoTime() - end < 0; turn++) {
            long permits = ThreadLocalRandom.current().nextLong(1, most + 1);
            boolean waits = turn % 8 == 7;
            if (waits ? limiter.tryAcquire(permits, 100, TimeUnit.MILLISECONDS) : limiter.tryAcquire(permits)) {
                granted += permits;
            }
        }
        return granted;
    }
}
