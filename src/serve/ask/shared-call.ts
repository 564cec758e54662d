/** Makes of a function one that runs once at a time: who calls it meanwhile gets the same result. */
export function sharedCall<T>(call: () => Promise<T>): () => Promise<T> {
  const underWay: { result: Promise<T> | undefined } = { result: undefined };
  return () => {
    underWay.result ??= call().finally(() => {
      underWay.result = undefined;
    });
    return underWay.result;
  };
}
