/** The head of an HTTP/1.1 answer. */

/** Reason phrases of the statuses in use. */
const names: Readonly<Record<number, string>> = {
  200: 'OK',
  302: 'Found',
  400: 'Bad Request',
  403: 'Forbidden',
  404: 'Not Found',
  405: 'Method Not Allowed',
  406: 'Not Acceptable',
  408: 'Request Timeout',
  409: 'Conflict',
  410: 'Gone',
  413: 'Content Too Large',
  417: 'Expectation Failed',
  431: 'Request Header Fields Too Large',
  500: 'Internal Server Error',
  501: 'Not Implemented',
  503: 'Service Unavailable',
  505: 'HTTP Version Not Supported',
};

interface HeadOptions {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly bodyBytes: number;
  /** For how many seconds the connection waits for another request; undefined: it is closed. */
  readonly keepAliveSeconds: number | undefined;
  /** Milliseconds since the epoch. */
  readonly wallMs: number;
}

export function replyHead(options: HeadOptions): string {
  const { bodyBytes, headers, keepAliveSeconds: seconds, status, wallMs } = options;
  const lines = [
    `HTTP/1.1 ${status} ${names[status] ?? 'Unknown'}`,
    ...Object.entries(headers).map(([name, value]) => `${name}: ${oneLine(value)}`),
    `Date: ${new Date(wallMs).toUTCString()}`,
    ...(seconds === undefined
      ? ['Connection: close']
      : ['Connection: keep-alive', `Keep-Alive: timeout=${seconds}`]),
    `Content-Length: ${bodyBytes}`,
  ];
  return `${lines.join('\r\n')}\r\n\r\n`;
}

function oneLine(value: string): string {
  return value.replace(/[\r\n\0]/g, ' ');
}
