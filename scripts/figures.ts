/** Tables of documents that come from `bench/results`. */
import { cellOf, results } from '../bench/lib/results.ts';
import { table } from './markdown.ts';

/** Each figure that documents quote, with its peers and what is known of its run. */
export function figureTable(): string {
  const rows = [...results()].flatMap(([name, run]) =>
    run.figures.map((figure) => {
      const unit = figure.unit === '' ? '' : ` ${figure.unit}`;
      const peers = figure.peers.map((peer) => {
        const named = peer.name ?? peer.row?.at(-1) ?? peer.column;
        return `${named} ${cellOf(run, { ...figure, ...peer })}`;
      });
      const value = `${cellOf(run, figure)}${unit}`;
      return [figure.what, value, peers.join('; '), name];
    }),
  );
  return table(['figure', 'Fairlead', 'peers in the same run', 'run'], rows);
}

/** Facts of most runs, which the table of runs leaves out. */
const usual: readonly string[] = ['Linux 6.18, 2 CPUs', 'quiet', 'not recorded'];

/** When, where and with what runs were made. */
export function runTable(): string {
  const made = Map.groupBy(results(), ([, { date, commit, machine, load }]) => {
    const known = (...facts: readonly string[]) => facts.filter((fact) => !usual.includes(fact));
    const where = known(machine, load.replace('not recorded', '–')).join('; ');
    return [known(date, commit).join(', '), where].join('\n');
  });
  const rows = Array.from(made, ([facts, runs]) => {
    const links = runs.map(([name]) => `[${name}](results/${name}.json)`).join(', ');
    return [links, ...facts.split('\n')];
  });
  return table(['runs', 'date, commit', 'machine and load'], rows);
}

/** Renews each table between `<!-- results: RUN TABLE COLUMNS… -->` and `<!-- results: end -->`. */
export function withResults(page: string): string {
  const mark = /(<!-- results: (\S+) (\d+)((?: \d+)*) -->\n)[\s\S]*?(<!-- results: end -->)/g;
  return page.replace(mark, (_, start: string, name: string, index: string, list, end: string) => {
    const { head, rows } = results().get(name)!.tables[Number(index)]!;
    const columns = list === '' ? head.map((_, i) => i) : list.trim().split(' ').map(Number);
    const chosen = (cells: readonly string[]) => columns.map((i: number) => cells[i]!);
    return `${start}\n${table(chosen(head), rows.map(chosen))}\n\n${end}`;
  });
}
