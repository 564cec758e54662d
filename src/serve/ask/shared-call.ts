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
