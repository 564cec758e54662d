/** Small changes of a source file, made from its syntax. */
import { createHash } from 'node:crypto';
import { parseAst } from 'rolldown/parseAst';

export interface Mutant {
  /** From 1, unique in a run. */
  readonly id: number;
  readonly file: string;
  readonly line: number;
  readonly start: number;
  readonly end: number;
  /** The text in place of what is there; undefined: a statement that is deleted. */
  readonly to: string | undefined;
  /** Names it in lists: the line and the change. */
  readonly name: string;
  /** Takes effect when the module is loaded. */
  readonly atLoad: boolean;
  /** The length of a time, of a constant or a setting. */
  readonly timing: boolean;
  /** The constant whose value it changes; undefined: it takes effect at load, or needs no load. */
  readonly constant?: Constant;
}

/** A constant of a module that only bodies of its functions use. */
interface Constant {
  readonly name: string;
  readonly declaration: Node;
  readonly init: Node;
  readonly users: readonly Node[];
}

interface Node {
  readonly type: string;
  readonly start: number;
  readonly end: number;
  readonly [key: string]: unknown;
}

/** `name`: the variable, property or parameter that gets the value. */
interface Place {
  readonly atLoad: boolean;
  readonly name: string;
}

const swapped: Readonly<Record<string, string>> = {
  ...{ '<': '<=', '<=': '<', '>': '>=', '>=': '>', '&&': '||', '||': '&&' },
  ...{ '===': '!==', '!==': '===', '+': '-', '-': '+', '*': '/', '/': '*' },
  ...{ '%': '*', '&': '|', '|': '&', '<<': '>>', '>>': '<<', '>>>': '<<', '+=': '-=', '-=': '+=' },
};
/** Expressions whose `test` is a condition. */
const conditional = /^(If|While|DoWhile|For)Statement$|^ConditionalExpression$/;
const durationText = /^'(\d+(\.\d+)?(ms|s|m|h))+'$/;
const timingName = /(Ms|Seconds|Minutes|Hours)$/;

function isNode(value: unknown): value is Node {
  return typeof (value as Node | null)?.type === 'string';
}

/** All mutants of a file, in the order of their places. `firstId`: ids count from here. */
export function mutantsOf(file: string, source: string, firstId: number): readonly Mutant[] {
  const found: Mutant[] = [];
  const names = new Map<string, number>();
  const add = (
    { start, end }: Node,
    to: string | undefined,
    place: Place,
    timing = false,
  ): void => {
    const line = source.slice(0, start).split('\n').length;
    const from = source.slice(start, end);
    if (from === to) return;
    const text = source.split('\n')[line - 1]!.trim();
    const change = `${text} | ${from} -> ${to ?? ''}`.replaceAll(/\s+/g, ' ');
    const times = (names.get(change) ?? 0) + 1;
    names.set(change, times);
    const name = times > 1 ? `${change} (${times})` : change;
    const id = firstId + found.length;
    found.push({ id, file, line, start, end, to, name, atLoad: place.atLoad, timing });
  };

  /** `a OP b` becomes `a NEW b`, `a` and `b`. */
  const operator = (node: Node, place: Place): void => {
    const { left, operator: sign } = node as Node & { left: Node };
    const at = source.indexOf(sign as string, left.end);
    const after = at + (sign as string).length;
    const other = swapped[sign as string];
    const text = (to: string) => source.slice(node.start, at) + to + source.slice(after, node.end);
    if (other !== undefined) add(node, text(other), place);
    if (node.type !== 'LogicalExpression') return;
    add(node, source.slice(node.start, at), place);
    add(node, source.slice(after, node.end), place);
  };

  const without = (node: Node, elements: readonly Node[], place: Place): void => {
    const [open, close] = [source[node.start]!, source[node.end - 1]!];
    for (const left of elements) {
      const rest = elements.filter((one) => one !== left);
      const texts = rest.map((one) => source.slice(one.start, one.end));
      add(node, `${open}${texts.join(', ')}${close}`, place);
    }
  };

  const literal = (node: Node, place: Place): void => {
    const text = source.slice(node.start, node.end);
    const { value } = node;
    if (typeof value === 'boolean') add(node, String(!value), place);
    if (typeof value === 'string' && durationText.test(text)) {
      for (const factor of [2, 0.5]) {
        add(
          node,
          text.replaceAll(/[\d.]+/g, (n) => String(Number(n) * factor)),
          place,
          true,
        );
      }
    }
    if (typeof value !== 'number' && typeof value !== 'bigint') return;
    const timing = timingName.test(place.name) && Number(value) > 0;
    const two = typeof value === 'bigint' ? '2n' : '2';

    if (Number(value) === 0) {
      add(node, typeof value === 'bigint' ? '1n' : '1', place);
    } else {
      add(node, `${text} * ${two}`, place, timing);
      add(node, value === 1 ? '0' : `${text} / ${two}`, place, timing);
    }
  };

  const mutate = (node: Node, parent: Node, place: Place): void => {
    const { type } = node;
    if (type === 'Literal') literal(node, place);
    if (type === 'BinaryExpression' || type === 'LogicalExpression') operator(node, place);
    if (type === 'AssignmentExpression' && swapped[node.operator as string]) operator(node, place);
    if (type === 'ArrayExpression') {
      without(node, (node.elements as (Node | null)[]).filter(isNode), place);
    }
    if (type === 'ObjectExpression') {
      const spread = (node.properties as Node[]).filter((one) => one.type === 'SpreadElement');
      for (const { start, end } of spread) add({ ...node, start, end }, '...{}', place);
    }
    if (type === 'UnaryExpression' && node.operator === '!' && parent.test !== node) {
      const { start, end } = node.argument as Node;
      add(node, source.slice(start, end), place);
    }
    if (conditional.test(type) && isNode(node.test) && node.test.type !== 'Literal') {
      add(node.test, 'true', place);
      add(node.test, 'false', place);
    }
    // A boolean is flipped anyway, and `undefined` means `false`.
    const returned =
      type === 'ReturnStatement' && isNode(node.argument) ? node.argument : undefined;
    if (returned !== undefined && typeof returned.value !== 'boolean') {
      add(returned, 'undefined', place);
    }
    if (type === 'ArrowFunctionExpression' && node.expression === true) {
      add(node.body as Node, 'undefined', { ...place, atLoad: false });
    }
    const expression = node.expression as Node & { callee?: Node };
    if (/^(Throw|Break|Continue)Statement$/.test(type)) add(node, undefined, place);
    if (type === 'ExpressionStatement' && expression.callee?.type !== 'Super') {
      add(node, undefined, place);
    }
  };

  const placeIn = (node: Node, place: Place): Place => {
    const { type } = node;
    const isLate = /Function/.test(type) || (type === 'PropertyDefinition' && node.static !== true);
    const named = [node.id, node.key, node.left].find(isNode);
    const own = /^(VariableDeclarator|Property|PropertyDefinition|AssignmentPattern)$/.test(type)
      ? source.slice(named!.start, named!.end).replace(/:.*/s, '')
      : place.name;
    // `{ TCP: 500 }` of `graceMs`.
    const isOfTimes = type === 'Property' && timingName.test(place.name);
    return { atLoad: place.atLoad && !isLate, name: isOfTimes ? place.name : own };
  };

  const bodies: Node[] = [];
  const namesAtLoad: string[] = [];

  /** What only functions of this file use can change later, and concerns only what calls them. */
  const withConstant = (mutant: Mutant): Mutant => {
    if (!mutant.atLoad) return mutant;
    const declaration = (program.body as Node[])
      .filter(({ kind, type }) => type === 'VariableDeclaration' && kind === 'const')
      .find(({ start, end }) => start <= mutant.start && mutant.end <= end);
    type Declarator = Node & { readonly id: Node; readonly init: Node };
    const [declarator, ...others] = (declaration?.declarations ?? []) as Declarator[];
    const name = declarator?.id.name;
    if (declarator === undefined || others.length > 0 || typeof name !== 'string') return mutant;
    if (namesAtLoad.filter((one) => one === name).length > 1) return mutant;
    const users = bodies.filter(({ start, end }) => source.slice(start, end).includes(name));
    return {
      ...mutant,
      constant: { name, declaration: declaration!, init: declarator.init, users },
    };
  };

  const walk = (node: Node, parent: Node, place: Place): void => {
    if (node.type === 'Identifier' && place.atLoad) namesAtLoad.push(node.name as string);
    if (/Function/.test(node.type)) bodies.push(node.body as Node);
    if (/^(Import|ExportAll)/.test(node.type) && node.type !== 'ImportExpression') return;
    if (/^TS/.test(node.type) && !/^TS(As|NonNull|Satisfies)/.test(node.type)) return;
    mutate(node, parent, place);
    const inside = placeIn(node, place);
    for (const [key, value] of Object.entries(node)) {
      if (key === 'key' && node.computed !== true) continue;
      for (const child of [value].flat()) if (isNode(child)) walk(child, node, inside);
    }
  };
  const program = parseAst(source, { lang: 'ts' }) as unknown as Node;
  walk(program, program, { atLoad: true, name: '' });
  return found.map(withConstant);
}

/** A text that takes the place of another one, which may hold others that change. */
interface Change {
  readonly start: number;
  readonly end: number;
  readonly made: (was: string) => string;
}

/**
 * The source with all of them in it, of which `globalThis.mutant(id)` chooses. Those of constants
 * are given to `globalThis.switched(id, (isOn) => ...)`.
 */
export function withMutants(source: string, mutants: readonly Mutant[]): string {
  const declarations = new Set(mutants.flatMap(({ constant }) => constant?.declaration ?? []));
  const variables = [...declarations].map(({ start }): Change => {
    return { start, end: start + 'const'.length, made: () => 'let' };
  });
  const changes = mutants.flatMap((one): Change[] => {
    if (one.constant === undefined) return [{ ...one, made: (was) => changed(one, was) }];
    const { declaration, users } = one.constant;
    const { end } = declaration;
    const probe = `globalThis.mutant(${one.id})`;
    const probes = users.map(({ type, start, end }): Change => {
      return type === 'BlockStatement'
        ? { start: start + 1, end: start + 1, made: (was) => `${probe};${was}` }
        : { start, end, made: (was) => `(${probe}, ${was})` };
    });
    return [
      { start: end, end, made: (was) => was + switched(one, one.constant!, source) },
      ...probes,
    ];
  });
  const waiting = [...variables, ...changes].sort((a, b) => a.start - b.start || b.end - a.end);
  let next = 0;
  const text = (from: number, to: number): string => {
    let made = '';
    let at = from;
    while (waiting[next] !== undefined && waiting[next]!.end <= to) {
      const one = waiting[next++]!;
      made += source.slice(at, one.start) + one.made(text(one.start, one.end));
      at = one.end;
    }
    return made + source.slice(at, to);
  };
  return text(0, source.length);
}

function changed({ id, to }: Mutant, was: string): string {
  const isChosen = `globalThis.mutant(${id})`;
  if (to === undefined) return `{ if (!${isChosen}) ${was} }`;
  if (to === '...{}') return `...(${isChosen} ? {} : ${was.replace('...', '')})`;
  return `(${isChosen} ? (${to}) : ${was})`;
}

function switched(
  { id, start, end, to }: Mutant,
  { init, name }: Constant,
  source: string,
): string {
  const value = `${source.slice(init.start, start)}${to}${source.slice(end, init.end)}`;
  const set = `(was) => (isOn) => { ${name} = isOn ? (${value}) : was; }`;
  return `globalThis.switched(${id}, (${set})(${name}));`;
}

/** `count` of them by chance: those that stay in the source stay in the sample of a seed. */
export function sampleOf(all: readonly Mutant[], count: number, seed: number): readonly Mutant[] {
  const rank = ({ file, name }: Mutant): string =>
    createHash('sha256').update(`${seed} ${file} ${name}`).digest('hex');
  const ranked = all.map((mutant) => ({ mutant, rank: rank(mutant) }));
  return ranked
    .sort((a, b) => (a.rank < b.rank ? -1 : 1))
    .slice(0, count)
    .map(({ mutant }) => mutant);
}
