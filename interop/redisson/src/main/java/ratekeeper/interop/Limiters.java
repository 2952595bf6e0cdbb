package ratekeeper.interop;

import java.time.Duration;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.LongAdder;
import org.redisson.api.RRateLimiter;
import org.redisson.api.RateIntervalUnit;
import org.redisson.api.RateLimiterConfig;
import org.redisson.api.RateType;
import org.redisson.api.RedissonClient;

/**
 * The commands, each a method of {@link RRateLimiter}. Methods of newer releases (keep-alive time, updates that keep
 * state, release) are called by reflection, so that one source compiles with all releases.
 */
final class Limiters {
    private final RedissonClient client;

    Limiters(RedissonClient client) {
        this.client = client;
    }

    Object run(String[] words) throws Exception {
        String name = words.length > 1 ? words[1] : "";
        RRateLimiter limiter = client.getRateLimiter(name);
        switch (words[0]) {
            case "tryset":
                return trySet(limiter, words);
            case "set":
                limiter.setRate(RateType.valueOf(words[2]), number(words, 3), number(words, 4), RateIntervalUnit.MILLISECONDS);
                return "";
            case "update":
                return update(limiter, words);
            case "try":
                return limiter.tryAcquire(number(words, 2));
            case "timed":
                return limiter.tryAcquire(number(words, 2), number(words, 3), TimeUnit.MILLISECONDS);
            case "acquire":
                limiter.acquire(number(words, 2));
                return "";
            case "release":
                RRateLimiter.class.getMethod("release", long.class).invoke(limiter, number(words, 2));
                return "";
            case "can":
                return can(words[1]);
            case "available":
                return limiter.availablePermits();
            case "config":
                RateLimiterConfig config = limiter.getConfig();
                return config.getRateType() + " " + config.getRate() + " " + config.getRateInterval();
            case "expire":
                return limiter.expire(number(words, 2), TimeUnit.MILLISECONDS);
            case "clear":
                return limiter.clearExpire();
            case "ttl":
                return limiter.remainTimeToLive();
            case "delete":
                return limiter.delete();
            case "exists":
                return limiter.isExists();
            case "hammer":
                return Hammer.run(limiter, (int) number(words, 2), number(words, 3), number(words, 4));
            case "repeat":
                return repeat(limiter, number(words, 2), number(words, 3), (int) number(words, 4));
            default:
                throw new IllegalArgumentException("no command `" + words[0] + "`");
        }
    }

    /** {@code tryset NAME MODE RATE INTERVAL KEEP_ALIVE}, in milliseconds; a keep-alive time of 0 is none. */
    private static Object trySet(RRateLimiter limiter, String[] words) throws Exception {
        RateType mode = RateType.valueOf(words[2]);
        long keepAlive = number(words, 5);
        if (keepAlive == 0) {
            return limiter.trySetRate(mode, number(words, 3), number(words, 4), RateIntervalUnit.MILLISECONDS);
        }
        return RRateLimiter.class
            .getMethod("trySetRate", RateType.class, long.class, Duration.class, Duration.class)
            .invoke(limiter, mode, number(words, 3), Duration.ofMillis(number(words, 4)), Duration.ofMillis(keepAlive));
    }

    /** {@code update NAME MODE RATE INTERVAL KEEP_STATE}. */
    private static Object update(RRateLimiter limiter, String[] words) throws Exception {
        Class<?> type = Class.forName("org.redisson.api.ratelimiter.RateLimiterArgs");
        Object args = type.getMethod("of", RateType.class, long.class, Duration.class)
            .invoke(null, RateType.valueOf(words[2]), number(words, 3), Duration.ofMillis(number(words, 4)));
        args = type.getMethod("keepState", boolean.class).invoke(args, Boolean.parseBoolean(words[5]));
        return RRateLimiter.class.getMethod("updateRate", type).invoke(limiter, args);
    }

    /** Whether this release has a method of that name. */
    private static boolean can(String method) {
        for (java.lang.reflect.Method known : RRateLimiter.class.getMethods()) {
            if (known.getName().equals(method)) {
                return true;
            }
        }
        return false;
    }

    /** {@code repeat NAME PERMITS TIMES IN_FLIGHT}: a number of attempts with a bound on those in flight. */
    private static long repeat(RRateLimiter limiter, long permits, long times, int inFlight) throws Exception {
        Semaphore slots = new Semaphore(inFlight);
        LongAdder granted = new LongAdder();
        for (long turn = 0; turn < times; turn++) {
            slots.acquire();
            limiter.tryAcquireAsync(permits).whenComplete((isGranted, error) -> {
                if (error == null && isGranted) {
                    granted.increment();
                }
                slots.release();
            });
        }
        slots.acquire(inFlight);
        return granted.sum();
    }

    static long number(String[] words, int at) {
        return Long.parseLong(words[at]);
    }
}
