// A byte-level BPE vocabulary of any size, made of letter combinations whose merges really build its tokens, so that text and
// chats go through a random model like through a real one.

export interface Vocabulary {
  readonly tokens: readonly string[];
  readonly merges: readonly string[];
  readonly special: readonly string[]; // the first tokens
  readonly bosId: number;
  readonly eosId: number;
  readonly chatTemplate: string;
}

const SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"];
const LETTERS = [..."etaoinshrdlucmfwygpbvkxqjz"];
const CHAT =
  "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\\n' + m['content'] + '<|im_end|>\\n' }}{% endfor %}" +
  "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";

export function makeVocabulary(size: number): Vocabulary {
  const bytes = byteTokens();
  const space = bytes[32]!;
  const tokens = [...SPECIAL, ...bytes];
  const merges: string[] = [];
  const seen = new Set(tokens);
  const add = (left: string, right: string) => {
    const token = left + right;
    if (tokens.length >= size || seen.has(token)) return;
    seen.add(token);
    tokens.push(token);
    merges.push(`${left} ${right}`);
  };
  // Each list is built from the ones before it, so both halves of a merge are tokens already.
  const pairs = LETTERS.flatMap((a) => LETTERS.map((b) => a + b));
  for (const a of LETTERS) add(space, a);
  for (const [a, b] of pairs) add(a!, b!);
  for (const [a, b] of pairs) add(space + a, b!);
  for (const pair of pairs) for (const c of LETTERS) add(space + pair, c);
  for (const pair of pairs) for (const c of LETTERS) add(pair, c);
  for (const pair of pairs) for (const end of pairs) add(space + pair, end);
  if (tokens.length !== size)
    throw new RangeError(`a vocabulary of ${size} tokens: possible are 259 to ${tokens.length}`);
  return { tokens, merges, special: SPECIAL, bosId: 1, eosId: 2, chatTemplate: CHAT };
}

/** Every byte as the visible character that byte-level BPE writes for it. */
function byteTokens(): string[] {
  let shifted = 256;
  return Array.from({ length: 256 }, (_, byte) => {
    const isVisible = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
    return String.fromCharCode(isVisible ? byte : shifted++);
  });
}
