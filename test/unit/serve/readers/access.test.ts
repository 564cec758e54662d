/** The port for clients of other machines: who gets answers, and what is asked for that. */
import { once } from 'node:events';
import { request } from 'node:https';
import { connect } from 'node:net';
import { text } from 'node:stream/consumers';
import { describe, expect, it } from 'vitest';
import { ReaderAccess } from '../../../../src/serve/readers/access.ts';
import { configOf, Running, serveWeb } from '../../agent/running.ts';
import { PaperCluster, rows } from '../../cluster/cluster.ts';
import { freePort } from '../../free-port.ts';
import { turnsUntil } from '../../turns.ts';
import { FakeReviews } from './fake-reviews.ts';

async function running(reviews: FakeReviews): Promise<Running> {
  const flag = `--read-bind-address=127.0.0.1:${await freePort()}`;
  const config = await configOf('--manifests=/anywhere', flag);
  const app = await new Running(config).start({ openReviews: reviews.open });
  await serveWeb(app);
  await listens(app);
  return app;
}

/** Resolves once the port accepts connections: its server is loaded while the process works. */
async function listens(app: Running): Promise<void> {
  const { port } = app.config.readBindAddress!;
  await turnsUntil(async () => {
    const socket = connect(port, '127.0.0.1');
    const isOpen = once(socket, 'connect').then(
      () => true,
      () => false,
    );
    return isOpen.finally(() => socket.destroy());
  });
}

interface Question {
  /** The body of a POST. */
  readonly token?: string;
  /** The header Authorization. */
  readonly header?: string;
  readonly method?: string;
}

interface Said {
  readonly code: number | undefined;
  readonly body: string;
}

async function ask(app: Running, path: string, question: Question): Promise<Said> {
  const { header, token, method = token === undefined ? 'GET' : 'POST' } = question;
  const { port } = app.config.readBindAddress!;
  const headers = header === undefined ? {} : { authorization: header };
  const to = { host: '127.0.0.1', port, path, method, headers };
  const asking = request({ ...to, rejectUnauthorized: false, agent: false });
  asking.end(token);
  const [response] = await once(asking, 'response');
  return { code: response.statusCode, body: await text(response) };
}

const status = '/fairlead/v1/status';

describe('the port for readers', () => {
  it('answers as loopback does, with a token as the body of a POST or in the header of a GET', async () => {
    const reviews = new FakeReviews();
    const app = await running(reviews);
    const path = '/fairlead/v1/service?name=web';
    const local = await (await app.get('metrics', path)).json();
    for (const question of [{ token: 'good\n' }, { header: 'Bearer good' }]) {
      const { body, code } = await ask(app, path, question);
      expect([code, JSON.parse(body)]).toEqual([200, local]);
    }
    const user = { user: 'reader', uid: 'u', groups: ['g'], extra: { x: ['y'] } };
    const nonResourceAttributes = { path: '/fairlead/v1/service', verb: 'get' };
    expect(reviews.asked).toEqual([
      {
        path: '/apis/authentication.k8s.io/v1/tokenreviews',
        apiVersion: 'authentication.k8s.io/v1',
        kind: 'TokenReview',
        spec: { token: 'good', audiences: ['fairlead'] },
      },
      {
        path: '/apis/authorization.k8s.io/v1/subjectaccessreviews',
        apiVersion: 'authorization.k8s.io/v1',
        kind: 'SubjectAccessReview',
        spec: { ...user, nonResourceAttributes },
      },
    ]);
    await app.stop();
    expect(reviews.isClosed).toBe(true);
  });

  it('refuses who has no token, an unknown one, one for another audience, or no right', async () => {
    const reviews = new FakeReviews();
    const app = await running(reviews);
    const without: Question[] = [
      {},
      { token: '' },
      { token: 'a b' },
      { token: 'x'.repeat(4096) },
      { header: 'Basic good' },
      { header: 'good' },
    ];
    for (const question of without) {
      expect([question, (await ask(app, status, question)).code]).toEqual([question, 401]);
    }
    expect(reviews.asked).toEqual([]);
    expect((await ask(app, status, { token: 'x'.repeat(4095) })).code).toBe(401);
    expect(reviews.count('TokenReview')).toBe(1);
    expect(await ask(app, status, { token: 'poor' })).toEqual({
      code: 403,
      body: '{"error":"visitor may not get /fairlead/v1/status"}\n',
    });
    for (const audiences of [undefined, [], ['https://kubernetes.default.svc']]) {
      reviews.audiences = audiences;
      const { body, code } = await ask(app, '/fairlead/v1/diff', { token: 'good' });
      expect([code, body]).toEqual([401, expect.stringContaining('audience fairlead')]);
      await app.clock.pass(10_000);
    }
  });

  it('has the questions of the table, and nothing that changes or profiles the process', async () => {
    const app = await running(new FakeReviews());
    for (const path of ['/', '/metrics', '/configz', '/debug/flags/v', '/healthz']) {
      expect([path, (await ask(app, path, { token: 'good' })).code]).toEqual([path, 404]);
    }
    for (const method of ['PUT', 'DELETE', 'PATCH']) {
      const { code } = await ask(app, status, { method, header: 'Bearer good' });
      expect([method, code]).toEqual([method, 405]);
    }
    const odd = await ask(app, `${status}?weather=fine`, { token: 'good' });
    expect([odd.code, odd.body]).toEqual([400, expect.stringContaining('weather')]);
  });

  it('refuses all while the API server does not answer, but tokens that it knew shortly before', async () => {
    const reviews = new FakeReviews();
    const app = await running(reviews);
    expect((await ask(app, status, { token: 'good' })).code).toBe(200);
    reviews.isSilent = true;
    const silence = async (token: string): Promise<number | undefined> => {
      const asked = new Promise<void>((resolve) => (reviews.waits = resolve));
      const answer = ask(app, status, { token });
      await asked;
      await app.clock.pass(5000);
      return (await answer).code;
    };
    for (let i = 0; i < 3; i += 1) expect(await silence('poor')).toBe(503);
    const failures = app.lines.filter(
      ({ err }) => err === 'the API server did not answer within 5 s',
    );
    expect(failures).toHaveLength(1);
    await app.clock.pass(60_000 - 3 * 5000 - 1);
    expect((await ask(app, status, { token: 'good' })).code).toBe(200);
    await app.clock.pass(1);
    expect(await silence('good')).toBe(503);
    reviews.isSilent = false;
    expect((await ask(app, status, { token: 'good' })).code).toBe(200);
  });

  it('gives reports that the plugin reads, with the reason of a refusal', async () => {
    const app = await running(new FakeReviews());
    const report = await ask(app, `${status}?form=report`, { token: 'good' });
    expect(report.body).toMatch(/^fairlead-report\t1\t.*\nnode\tnode-a\nhealthy\t/);
    const { stdout } = await new PaperCluster().node('a', report.body).ask('status');
    expect(rows(stdout)[1]!.slice(0, 3)).toEqual(['a', 'yes', 'nftables']);
    const explain = '/fairlead/v1/explain?form=report&from=node&to=ns/web:80';
    const { body } = await ask(app, explain, { token: 'good' });
    expect(body).toMatch(/\nhealthy\tyes\n(text\t.*\n)+end\n$/);
    expect(body).not.toMatch(/[^\t\n -~]|\\u0001/);
    const absent = await ask(app, '/fairlead/v1/service?name=none&form=report', { token: 'good' });
    expect([absent.code, absent.body]).toEqual([
      200,
      expect.stringMatching(/\nrefused\t.*\nend\n/),
    ]);
    // kubectl shows the body of this answer if it is text.
    expect(await ask(app, `${status}?form=report`, { token: 'poor' })).toEqual({
      code: 403,
      body: 'visitor may not get /fairlead/v1/status\n',
    });
    expect((await ask(app, `${status}?form=poem`, { token: 'good' })).code).toBe(400);
  });

  it('is closed where no API server can review tokens', async () => {
    const flag = `--read-bind-address=127.0.0.1:${await freePort()}`;
    const app = await new Running(await configOf('--manifests=/anywhere', flag)).start();
    await serveWeb(app);
    await listens(app);
    expect((await ask(app, status, { token: 'good' })).code).toBe(503);
    expect(app.lines.find(({ err }) => /objects come from files/.test(String(err)))).toBeDefined();
  });
});

describe('reviews of tokens', () => {
  function made() {
    const reviews = new FakeReviews();
    const time = { ms: 0 };
    const clock = { now: () => time.ms, after: () => () => {} };
    const access = new ReaderAccess({ open: reviews.open, clock, problem: () => {} });
    const admit = async (token: string, path = status): Promise<boolean> => {
      const asked = { method: 'POST', body: token } as Parameters<typeof access.admit>[0];
      return Promise.resolve(access.admit(asked, path)).then(
        () => true,
        () => false,
      );
    };
    return { admit, reviews, time };
  }

  it.each([
    ['good', 60_000, true],
    ['poor', 10_000, false],
    ['none', 10_000, false],
  ])('are kept for a time (%s, %i ms)', async (token, forMs, isAdmitted) => {
    const { admit, reviews, time } = made();
    for (time.ms of [0, forMs - 1]) expect(await admit(token)).toBe(isAdmitted);
    expect(reviews.count('TokenReview')).toBe(1);
    time.ms = forMs;
    expect(await admit(token)).toBe(isAdmitted);
    expect(reviews.count('TokenReview')).toBe(2);
  });

  it('are made for each path, and once for those who ask at the same time', async () => {
    const { admit, reviews } = made();
    await Promise.all(Array.from({ length: 20 }, () => admit('good')));
    expect(reviews.count('TokenReview')).toBe(1);
    await admit('good', '/fairlead/v1/diff');
    expect(reviews.count('SubjectAccessReview')).toBe(2);
  });

  it('are kept for a limited number of tokens', async () => {
    const { admit, reviews } = made();
    await admit('good');
    for (let i = 1; i < 256; i += 1) await admit(`random-${i}`);
    await admit('good');
    expect(reviews.count('TokenReview')).toBe(256);
    await admit('one-more');
    await admit('good');
    expect(reviews.count('TokenReview')).toBe(256 + 2);
  });
});
