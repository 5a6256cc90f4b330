// Greedy answers of llama.cpp to prompts given as token ids, for `fastcoder-lsp bench quality --import`.
//
//   npm install node-llama-cpp
//   fastcoder-lsp bench quality --suites start --arms plain --export prompts.jsonl
//   node scripts/llama_cpp_infill.mjs MODEL.gguf prompts.jsonl answers.jsonl
//
// Reads lines {suite, id, tokens, ends, max_tokens}, appends lines {suite, id, text}; the text goes to the first line's
// end. Answers that the output file holds already are not asked again.
import {appendFileSync, existsSync, readFileSync} from "node:fs";
import {createRequire} from "node:module";
import {availableParallelism} from "node:os";
import {join} from "node:path";
import {pathToFileURL} from "node:url";

const [gguf, input, output] = process.argv.slice(2);
if (output === undefined) {
    console.error("usage: node llama_cpp_infill.mjs MODEL.gguf prompts.jsonl answers.jsonl");
    process.exit(2);
}
// The package is looked for where the command is run, not beside this file.
const require = createRequire(pathToFileURL(join(process.cwd(), "package.json")));
const {getLlama} = await import(pathToFileURL(require.resolve("node-llama-cpp")));

const rows = (file) => readFileSync(file, "utf8").split("\n").filter(Boolean).map((line) => JSON.parse(line));
const name = ({suite, id}) => `${suite} ${id}`;
const known = new Set(existsSync(output) ? rows(output).map(name) : []);

const llama = await getLlama({gpu: false, build: "never"});
const model = await llama.loadModel({modelPath: gguf, useMmap: true});
// More threads than cores wait for each other: its own default of four does on two cores.
const context = await model.createContext({contextSize: 2048, threads: availableParallelism()});
const sequence = context.getSequence();

for (const row of rows(input)) {
    if (known.has(name(row))) continue;
    const ends = new Set(row.ends);
    const said = [];
    let text = "";
    // Neighbouring tasks begin alike; the last token is always evaluated.
    await sequence.adaptStateToTokens(row.tokens.slice(0, -1), false);
    for await (const token of sequence.evaluate(row.tokens.slice(sequence.nextTokenIndex), {temperature: 0, yieldEogToken: true})) {
        if (ends.has(token) || said.push(token) >= row.max_tokens) break;
        text = model.detokenize(said);
        if (text.includes("\n")) break;
    }
    appendFileSync(output, JSON.stringify({suite: row.suite, id: row.id, text: model.detokenize(said)}) + "\n");
}
process.exit(0);
