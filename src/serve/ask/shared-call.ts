/** Makes a function run once at a time: callers in the meantime get the same result. */
export function sharedCall<T>(call: () => Promise<T>): () => Promise<T> {
  const underWay: { result: Promise<T> | undefined } = { result: undefined };
  return () => {
    underWay.result ??= call().finally(() => {
      underWay.result = undefined;
    });
    return underWay.result;
  };
}

/** How long a question waits for a reading of the kernel; then it uses what was known before. */
export const readingPatienceMs = 100;

/** Waits for `work`, for `ms` at most. Rejects as it does, in that time. */
export async function waitedAtMost(ms: number, work: Promise<void>): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    const timer = setTimeout(resolve, ms);
    work.then(resolve, reject).finally(() => clearTimeout(timer));
  });
}
