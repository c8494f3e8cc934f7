// The one table of parameters: what may stand at the top of a body, on which endpoint, and what happens to it. /v1, the
// sessions and docs/parameters.md (scripts/generate.ts) are all made from it. A new row here is a new row in the docs.

import { endpointNames, endpoints, fieldsOf } from '../config/endpoints.ts'
import type { Endpoint } from '../config/endpoints.ts'
import * as bounds from './parameter-bounds.ts'
import type { Check } from './parameter-bounds.ts'

/**
 * `passes`: goes to the backend byte for byte. `bounded`: the same, within bounds. `gateway`: the gateway reads it or
 * writes it. `word`: passes only when the model's `extra_parameters` lists it. `never`: does not pass even then.
 */
export type Way = 'passes' | 'bounded' | 'gateway' | 'word' | 'never'

export interface ParameterRow {
  readonly names: readonly string[]
  readonly endpoints: readonly Endpoint[]
  readonly way: Way
  /** Whole sentences, for the docs. For `never` the client reads them, too. */
  readonly why: string
  /** Not called for null, which counts as absent. */
  readonly check?: Check
}

type Rest = Pick<ParameterRow, 'why' | 'check'>

/** Makes rows of one way. A key of `named` has a row's names, separated by spaces; its value is the rest of the row. */
function rows(
  way: Way,
  endpoints: readonly Endpoint[],
  named: Readonly<Record<string, string | Rest>>,
): readonly ParameterRow[] {
  return Object.entries(named).map(([names, rest]) => {
    const row = typeof rest === 'string' ? { why: rest } : rest
    return { names: names.trim().split(/\s+/), endpoints, way, ...row }
  })
}

/** The fields of the endpoints that generate nothing, as their table has them. */
function ownRows(): readonly ParameterRow[] {
  const plain = endpoints.filter(({ generates }) => !generates)
  const byFields = Map.groupBy(plain, (one) => fieldsOf(one).join(' '))
  return [...byFields].flatMap(([names, alike]) => {
    const hasMedia = alike.some(({ media }) => media.length > 0)
    const on = alike.map(({ endpoint }) => endpoint)
    return rows('gateway', on, {
      [names]: hasMedia ? 'Media as in messages.' : 'Counted as prompt.',
    })
  })
}

const all: readonly Endpoint[] = endpointNames
const generating: readonly Endpoint[] = ['chat', 'completions']
const chat: readonly Endpoint[] = ['chat']
const completions: readonly Endpoint[] = ['completions']
const pooling: readonly Endpoint[] = ['embeddings', 'rerank']

export const parameterRows: readonly ParameterRow[] = [
  ...rows('gateway', all, {
    model: "The backend gets the target's name of the model.",
    stream: 'Only chat and completions may have true.',
  }),
  ...rows('gateway', generating, {
    stream_options: {
      why: 'May have `include_usage`, `include_obfuscation` and `continuous_usage_stats`, nothing else. The gateway writes it anew.',
      check: bounds.streamOptions,
    },
    'max_tokens max_completion_tokens':
      "The backend gets the smaller one, at most the model's limit and what is paid for, in the one field that the target obeys.",
    'n best_of':
      'An integer of 1 or more. All choices together, over all prompts, are at most 1024.',
  }),
  ...rows('gateway', chat, {
    messages:
      'Media are data URLs, or `https` from the hosts in `remote_media`. No object may have a key twice.',
  }),
  ...rows('gateway', completions, {
    prompt: { why: 'Text, texts, or token ids.', check: bounds.prompt },
  }),
  ...ownRows(),
  ...rows('bounded', generating, {
    stop: {
      why: 'At most 16 texts of 1,024 characters: the backend compares each with each token.',
      check: bounds.texts(16, 1024),
    },
    logit_bias: {
      why: 'At most 1,024 tokens: each costs the backend time with each token.',
      check: bounds.members(1024),
    },
    'logprobs top_logprobs n_probs': {
      why: 'True, false, or an integer from 0 to 20. -1 would be the whole vocabulary for each token.',
      check: bounds.probabilities,
    },
    response_format: {
      why: 'Of type `text`, `json_object` or `json_schema`. Grammars and regular expressions can keep a backend busy.',
      check: bounds.responseFormat,
    },
    'bad_words samplers dry_sequence_breakers': {
      why: 'At most 128 texts of 256 characters.',
      check: bounds.texts(128, 256),
    },
    'stop_token_ids allowed_token_ids': {
      why: 'At most 8,192 token ids.',
      check: bounds.ids(8192),
    },
    'include_reasoning stream_reasoning cache_prompt': {
      why: 'Only true. False would hide generated text from the gateway, or repeat work that nobody pays for.',
      check: bounds.isTrue,
    },
    reasoning_format: {
      why: '`none`, `auto`, `deepseek`, `deepseek-legacy`, `parsed` or `raw`. Others could hide thoughts, which would then not be counted.',
      check: bounds.reasoningFormat,
    },
    reasoning: {
      why: '`effort`, `max_tokens`, `enabled`, and `exclude` if it is false.',
      check: bounds.reasoning,
    },
    chat_template_kwargs: {
      why: '`enable_thinking`, `thinking` and similar names, with short values. A template could do anything with others.',
      check: bounds.templateKeywords,
    },
    structured_outputs: {
      why: '`json`, `json_object` and `choice`. Other members are refused for the same reason as in `response_format`.',
      check: bounds.structuredOutputs,
    },
  }),
  ...rows('bounded', chat, {
    tools: {
      why: 'Of type `function` or `custom`. Other tools run at the backend (`web_search`, `mcp`, `googleSearch` …): to allow one, list its type, or the key, in `extra_parameters`.',
      check: bounds.tools,
    },
    modalities: {
      why: '`text` and `audio`. Other output is not counted in tokens.',
      check: bounds.modalities,
    },
  }),
  ...rows('bounded', completions, {
    echo: {
      why: 'Not together with `logprobs`: that would be `prompt_logprobs`.',
      check: bounds.echo,
    },
  }),
  ...rows('passes', all, { 'user safety_identifier': 'Names an end user.' }),
  ...rows('passes', generating, {
    'temperature top_p frequency_penalty presence_penalty seed': 'Sampling.',
    'prompt_cache_key prompt_cache_retention':
      'Where and how long a prompt stays cached. It has no price of its own.',
    [`top_k min_p top_a typical_p typical tfs_z top_n_sigma repetition_penalty repeat_penalty repeat_last_n
     no_repeat_ngram_size length_penalty dynatemp_range dynatemp_exponent mirostat mirostat_tau mirostat_eta
     xtc_probability xtc_threshold dry_multiplier dry_base dry_allowed_length dry_penalty_last_n adaptive_target
     adaptive_decay epsilon_cutoff eta_cutoff smoothing_factor min_keep random_seed`]:
      'Sampling, on vLLM, SGLang, llama.cpp and others.',
    [`skip_special_tokens spaces_between_special_tokens include_stop_str_in_output no_stop_trim add_special_tokens
     add_generation_prompt continue_final_message truncate_prompt_tokens truncation_side t_max_predict_ms`]:
      'How the prompt is put together, and where the answer ends.',
    [`return_tokens_as_token_ids return_token_ids return_tokens post_sampling_probs timings_per_token
     separate_reasoning parse_tool_calls`]: 'The shape of the answer.',
    'guided_json guided_choice json_schema':
      'The answer follows a JSON schema, or is one of a list, as with `response_format`.',
  }),
  ...rows('passes', chat, {
    'reasoning_effort verbosity parallel_tool_calls tool_choice':
      'Changes what is generated; the limit of the output stays.',
    'functions function_call': 'The old form of tools. Counted as prompt.',
    audio: 'Voice and format of spoken answers, whose tokens are counted.',
    [`think thinking enable_thinking thinking_budget thinking_token_budget thinking_budget_tokens reasoning_budget
     reasoning_budget_tokens safe_prompt`]:
      'How much the model thinks; the output limit includes thoughts.',
    documents: 'Texts for a template. Counted as prompt.',
  }),
  ...rows('passes', completions, { suffix: 'Counted as prompt.' }),
  ...rows('passes', pooling, {
    [`truncate_prompt_tokens truncation_side truncate truncation add_special_tokens normalize normalized use_activation
     activation softmax instruct instruction`]:
      'How the input is put together, and how the result is scaled.',
  }),
  ...rows('passes', ['embeddings'], {
    'dimensions encoding_format': 'The shape of the answer.',
    [`embed_dtype endianness embedding_type embedding_types output_dimension output_dtype embd_normalize task task_type
     input_type late_chunking prompt_name`]: 'What the vectors are for, and their shape.',
  }),
  ...rows('passes', ['rerank'], {
    'top_n top_k return_documents return_text raw_scores rank_fields max_tokens_per_doc':
      'Which results come back, and how long documents are cut.',
  }),
  ...rows('word', all, {
    service_tier: 'Another tier has another price.',
    'store metadata background previous_response_id conversation':
      'Keeps something at the backend, under the credential that all accounts share.',
    'models route provider plugins transforms preset':
      'Selects another, more expensive model, or adds tools to it (OpenRouter).',
    [`api_base base_url api_key api_version fallbacks num_retries timeout mock_response extra_headers headers tags
     guardrails cache caching custom_llm_provider user_config`]:
      'Reaches other systems, or controls a proxy behind the target (LiteLLM).',
    usage: 'Could change how the backend reports usage to the gateway.',
    [`kv_transfer_params bootstrap_host bootstrap_port bootstrap_room routed_dp_rank data_parallel_rank
     disagg_prefill_dp_rank vllm_xargs logits_processors custom_logit_processor custom_params custom_labels`]:
      'Addresses, code and switches inside the backend (vLLM, SGLang).',
    [`session_params session_id id_slot slot_id n_cache_reuse extra_key ngram_corpus_id rid request_id
     return_cached_tokens_details return_progress return_meta_info verbose`]:
      "Changes or shows what other accounts' requests left at the backend.",
    'lora lora_path priority': 'Another model, or a higher priority.',
    'mm_processor_kwargs media_io_kwargs images_config max_dynamic_patch min_dynamic_patch use_audio_in_video':
      'Changes how many tokens an image, a video or sound costs.',
  }),
  ...rows('word', generating, {
    'prompt_cache_options prompt_cache_breakpoint cache_control':
      'Some backends bill for writing to their cache. The last two are members of parts of messages.',
    'chat_template generation_prompt chat_format chat_parser input_ids prompt_embeds':
      'Makes a prompt that the gateway cannot count.',
    'prompt_logprobs return_prompt_token_ids return_hidden_states return_routed_experts':
      'Makes answers larger than what is paid for, and takes memory at the backend.',
    'max_new_tokens min_tokens ignore_eos options keep_alive n_keep n_discard':
      'Can override the output limit, or makes the model generate more than it would.',
    'use_beam_search early_stopping': 'Computes several answers for one.',
    [`guided_regex guided_grammar guided_decoding_backend guided_whitespace_pattern grammar grammar_lazy grammar_triggers
     preserved_tokens regex ebnf structural_tag stop_regex`]:
      'A regular expression or a grammar can keep the backend busy for minutes, for all accounts.',
  }),
  ...rows('word', chat, {
    'web_search_options moderation':
      'The backend asks something other than the model, at its own price.',
    prediction: 'Rejected tokens are billed above the output limit.',
  }),
  ...rows('word', pooling, { 'options keep_alive': 'Changes how the model runs.' }),
  ...rows('word', ['rerank'], {
    'max_chunks_per_doc overlap_tokens':
      'The backend cuts documents into pieces, and reads the query again with each piece.',
  }),
  ...rows('never', all, {
    response_fields: 'On llama.cpp it would remove the usage from the answer.',
    cache_salt: "The gateway sets it, if the target's `cache_salt` is on.",
  }),
  ...rows('never', generating, {
    'n_predict n_cmpl': 'On llama.cpp it would override max_tokens or n. Use these.',
  }),
]
