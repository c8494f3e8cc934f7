"""Writes a model file for llama.cpp that speaks in small, sensible sentences, without any training.

One hidden dimension a token and layers that add nothing: what comes out depends on the last token alone, so the
output matrix is the table "which word follows which" of the text below. An embedding is a count of words.

    python make_model.py OUT.gguf CONTEXT_TOKENS
"""

import math
import re
import sys
from collections import Counter

import gguf
import numpy as np

TEXT = """
A gateway stands between many clients and a few models.
A gateway counts each token, and a token is never counted twice.
The model answers word by word, and the client reads the words as they come.
The client may leave at any time, and then the model stops.
Each key belongs to one account, and each account has a balance.
The balance is held before the answer, and what is not used goes back.
We count what the model says, and we charge what we count.
Good night, naïve café, 你好 世界 🙂 and good luck.
"""
END_AFTER_SENTENCE = 0.2
NEVER = -40.0
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
# The tools' part is written as Qwen does, which llama.cpp knows how to read back and to force.
TEMPLATE = """\
{%- if tools %}
    {{- '<|im_start|>system\\n<tools>\\n' }}
    {%- for tool in tools %}
        {{- tool | tojson + '\\n' }}
    {%- endfor %}
    {{- '</tools><|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
    {{- '<|im_start|>' + message.role + '\\n' }}
    {%- if message.content %}
        {{- message.content }}
    {%- endif %}
    {%- for call in message.tool_calls or [] %}
        {{- '\\n<tool_call>\\n{"name": "' + call.function.name + '", "arguments": ' }}
        {{- call.function.arguments | tojson }}
        {{- '}\\n</tool_call>' }}
    {%- endfor %}
    {{- '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}"""
# One token, so that a client can ask for it by its logit bias: by itself the model never calls a tool. With the brace,
# since llama.cpp refuses tools where what its parser waits for is one token of the model.
CALL = "<tool_call>\n{"
HEAD = 64


def byte_characters():
    """GPT-2's way to write each byte as a printable character."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in plain]
    return {byte: chr(byte) for byte in plain} | {byte: chr(256 + i) for i, byte in enumerate(others)}


CHARACTER = byte_characters()


def learn_merges(words):
    """Byte pair encoding, carried on until each word is one token."""
    split = {word: tuple(CHARACTER[byte] for byte in word.encode()) for word in words}
    merges = []
    while any(len(pieces) > 1 for pieces in split.values()):
        pairs = Counter(pair for word, pieces in split.items() for pair in zip(pieces, pieces[1:]))
        best = max(pairs, key=lambda pair: (pairs[pair], pair))
        merges.append(best)
        split = {word: tuple(joined(pieces, best)) for word, pieces in split.items()}
    return merges, {word: pieces[0] for word, pieces in split.items()}


def joined(pieces, pair):
    at = 0
    while at < len(pieces):
        if pieces[at : at + 2] == pair:
            yield pair[0] + pair[1]
            at += 2
        else:
            yield pieces[at]
            at += 1


def followers(text, token_of, ids):
    """For each token, how often which one comes next; a new line begins a sentence."""
    table = {}
    starts = Counter()
    for line in text.strip().split("\n"):
        tokens = [ids[token_of[word]] for word in words_of(line)]
        starts[tokens[0]] += 1
        for one, two in zip(tokens, tokens[1:]):
            table.setdefault(one, Counter())[two] += 1
    full_stop = ids[token_of["."]]
    # The first word of a sentence in the midst of a line has a space before it.
    spaced = Counter({ids[token_of[" " + words_of(line)[0]]]: 1 for line in text.strip().split("\n")})
    table[full_stop] = Counter({token: count * (1 - END_AFTER_SENTENCE) for token, count in spaced.items()})
    table[full_stop][ids["<|im_end|>"]] = END_AFTER_SENTENCE * sum(spaced.values())
    for start, again in zip(starts, spaced):
        table.setdefault(again, table[start])
    return table, starts


def words_of(line):
    return re.findall(r" ?[^\W\d_]+| ?[^\s\w]+", line)


def output_matrix(table, starts, size, width):
    # What reaches it is a vector with the square root of `width` at the last token's place.
    scale = 1 / math.sqrt(width)
    matrix = np.full((size, width), NEVER * scale, np.float32)
    for last in range(size):
        following = table.get(last, starts)
        total = sum(following.values())
        for token, count in following.items():
            matrix[token, last] = math.log(count / total) * scale
    return matrix


def main(path, context):
    lines = TEXT.strip().split("\n")
    words = {word for line in lines for word in words_of(line)} | {" " + words_of(line)[0] for line in lines}
    merges, token_of = learn_merges(sorted(words))
    tokens = [*SPECIAL, CALL, *CHARACTER.values(), *dict.fromkeys(one + two for one, two in merges)]
    ids = {token: i for i, token in enumerate(tokens)}
    size = len(tokens)
    width = math.ceil(size / HEAD) * HEAD

    out = gguf.GGUFWriter(path, "llama")
    out.add_name("tiny")
    out.add_context_length(context)
    out.add_embedding_length(width)
    out.add_block_count(1)
    out.add_feed_forward_length(HEAD)
    out.add_head_count(width // HEAD)
    out.add_head_count_kv(width // HEAD)
    out.add_layer_norm_rms_eps(1e-6)
    out.add_rope_dimension_count(HEAD)
    out.add_vocab_size(size)
    out.add_file_type(gguf.LlamaFileType.ALL_F32)
    out.add_tokenizer_model("gpt2")
    out.add_tokenizer_pre("gpt-2")
    out.add_token_list(tokens)
    kinds = gguf.TokenType
    special = {token: kinds.CONTROL for token in SPECIAL} | {CALL: kinds.USER_DEFINED}
    out.add_token_types([special.get(token, kinds.NORMAL) for token in tokens])
    out.add_token_merges([f"{one} {two}" for one, two in merges])
    out.add_bos_token_id(ids["<|endoftext|>"])
    out.add_eos_token_id(ids["<|im_end|>"])
    out.add_add_bos_token(False)
    out.add_chat_template(TEMPLATE)

    ones = np.ones(width, np.float32)
    out.add_tensor("token_embd.weight", np.eye(size, width, dtype=np.float32))
    out.add_tensor("output_norm.weight", ones)
    out.add_tensor("output.weight", output_matrix(*followers(TEXT, token_of, ids), size, width))
    for name in ("attn_norm", "ffn_norm"):
        out.add_tensor(f"blk.0.{name}.weight", ones)
    for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
        out.add_tensor(f"blk.0.{name}.weight", np.zeros((width, width), np.float32))
    for name, shape in (("ffn_gate", (HEAD, width)), ("ffn_up", (HEAD, width)), ("ffn_down", (width, HEAD))):
        out.add_tensor(f"blk.0.{name}.weight", np.zeros(shape, np.float32))
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
