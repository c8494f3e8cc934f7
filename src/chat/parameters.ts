// The one table of parameters: what may stand at the top of a body, on which endpoint, and what happens to it. /v1, the
// sessions and docs/parameters.md (scripts/generate.ts) are all made from it. A new row here is a new row in the docs.

import { endpointNames } from '../config/endpoints.ts'
import type { Endpoint } from '../config/endpoints.ts'
import * as bounds from './parameter-bounds.ts'
import { ownRows, row } from './parameter-row.ts'
import type { ParameterRow } from './parameter-row.ts'

const all: readonly Endpoint[] = endpointNames
const generating: readonly Endpoint[] = ['chat', 'completions']
const chat: readonly Endpoint[] = ['chat']
const completions: readonly Endpoint[] = ['completions']
const pooling: readonly Endpoint[] = ['embeddings', 'rerank']

const gatewayRows: readonly ParameterRow[] = [
  row('gateway', all, 'model', { why: "The backend gets the target's name of the model." }),
  row('gateway', all, 'stream', { why: 'Only chat and completions may have true.' }),
  row('gateway', generating, 'stream_options', {
    why: 'May have `include_usage`, `include_obfuscation` and `continuous_usage_stats`, nothing else. The gateway writes it anew.',
    check: bounds.streamOptions,
  }),
  row('gateway', generating, 'max_tokens max_completion_tokens', {
    why: "The backend gets the smaller one, at most the model's limit and what is paid for, in the one field that the target obeys.",
  }),
  row('gateway', generating, 'n best_of', {
    why: 'An integer of 1 or more. All choices together, over all prompts, are at most 1024.',
  }),
  row('gateway', chat, 'messages', {
    why: 'Media are data URLs, or `https` from the hosts in `remote_media`. No object may have a key twice.',
  }),
  row('gateway', completions, 'prompt', {
    why: 'Text, texts, or token ids.',
    check: bounds.prompt,
  }),
  ...ownRows(),
  row('never', generating, 'n_predict n_cmpl', {
    why: 'On llama.cpp it would override max_tokens or n. Use these.',
  }),
  row('never', all, 'response_fields', {
    why: 'On llama.cpp it would remove the usage from the answer.',
  }),
  row('never', all, 'cache_salt', {
    why: "The gateway sets it, if the target's `cache_salt` is on.",
  }),
]

const openaiRows: readonly ParameterRow[] = [
  row('passes', all, 'user safety_identifier', { why: 'Names an end user.' }),
  row('passes', generating, 'temperature top_p frequency_penalty presence_penalty seed', {
    why: 'Sampling.',
  }),
  row('passes', chat, 'reasoning_effort verbosity parallel_tool_calls tool_choice', {
    why: 'Changes what is generated; the limit of the output stays.',
  }),
  row('passes', chat, 'functions function_call', {
    why: 'The old form of tools. Counted as prompt.',
  }),
  row('passes', chat, 'audio', {
    why: 'Voice and format of spoken answers, whose tokens are counted.',
  }),
  row('passes', completions, 'suffix', { why: 'Counted as prompt.' }),
  row('passes', generating, 'prompt_cache_key prompt_cache_retention', {
    why: 'Where and how long a prompt stays cached. It has no price of its own.',
  }),
  row('passes', ['embeddings'], 'dimensions encoding_format', { why: 'The shape of the answer.' }),
  row('bounded', generating, 'stop', {
    why: 'At most 16 texts of 1,024 characters: the backend compares each with each token.',
    check: bounds.texts(16, 1024),
  }),
  row('bounded', generating, 'logit_bias', {
    why: 'At most 1,024 tokens: each costs the backend time with each token.',
    check: bounds.members(1024),
  }),
  row('bounded', generating, 'logprobs top_logprobs n_probs', {
    why: 'True, false, or an integer from 0 to 20. -1 would be the whole vocabulary for each token.',
    check: bounds.probabilities,
  }),
  row('bounded', chat, 'tools', {
    why: 'Of type `function` or `custom`. Other tools run at the backend (`web_search`, `mcp`, `googleSearch` …): to allow one, list its type, or the key, in `extra_parameters`.',
    check: bounds.tools,
  }),
  row('bounded', generating, 'response_format', {
    why: 'Of type `text`, `json_object` or `json_schema`. Grammars and regular expressions can keep a backend busy.',
    check: bounds.responseFormat,
  }),
  row('bounded', chat, 'modalities', {
    why: '`text` and `audio`. Other output is not counted in tokens.',
    check: bounds.modalities,
  }),
  row('bounded', completions, 'echo', {
    why: 'Not together with `logprobs`: that would be `prompt_logprobs`.',
    check: bounds.echo,
  }),
  row('word', all, 'service_tier', { why: 'Another tier has another price.' }),
  row('word', chat, 'web_search_options moderation', {
    why: 'The backend asks something other than the model, at its own price.',
  }),
  row('word', chat, 'prediction', { why: 'Rejected tokens are billed above the output limit.' }),
  row('word', generating, 'prompt_cache_options prompt_cache_breakpoint cache_control', {
    why: 'Some backends bill for writing to their cache. The last two are members of parts of messages.',
  }),
  row('word', all, 'store metadata background previous_response_id conversation', {
    why: 'Keeps something at the backend, under the credential that all accounts share.',
  }),
]

const samplerRows: readonly ParameterRow[] = [
  row(
    'passes',
    generating,
    `top_k min_p top_a typical_p typical tfs_z top_n_sigma repetition_penalty repeat_penalty repeat_last_n
     no_repeat_ngram_size length_penalty dynatemp_range dynatemp_exponent mirostat mirostat_tau mirostat_eta
     xtc_probability xtc_threshold dry_multiplier dry_base dry_allowed_length dry_penalty_last_n adaptive_target
     adaptive_decay epsilon_cutoff eta_cutoff smoothing_factor min_keep random_seed`,
    { why: 'Sampling, on vLLM, SGLang, llama.cpp and others.' },
  ),
  row(
    'passes',
    generating,
    `skip_special_tokens spaces_between_special_tokens include_stop_str_in_output no_stop_trim add_special_tokens
     add_generation_prompt continue_final_message truncate_prompt_tokens truncation_side t_max_predict_ms`,
    { why: 'How the prompt is put together, and where the answer ends.' },
  ),
  row(
    'passes',
    generating,
    `return_tokens_as_token_ids return_token_ids return_tokens post_sampling_probs timings_per_token
     separate_reasoning parse_tool_calls`,
    { why: 'The shape of the answer.' },
  ),
  row(
    'passes',
    chat,
    `think thinking enable_thinking thinking_budget thinking_token_budget thinking_budget_tokens reasoning_budget
     reasoning_budget_tokens safe_prompt`,
    { why: 'How much the model thinks; the output limit includes thoughts.' },
  ),
  row('passes', generating, 'guided_json guided_choice json_schema', {
    why: 'The answer follows a JSON schema, or is one of a list, as with `response_format`.',
  }),
  row('passes', chat, 'documents', { why: 'Texts for a template. Counted as prompt.' }),
  row('bounded', generating, 'bad_words samplers dry_sequence_breakers', {
    why: 'At most 128 texts of 256 characters.',
    check: bounds.texts(128, 256),
  }),
  row('bounded', generating, 'stop_token_ids allowed_token_ids', {
    why: 'At most 8,192 token ids.',
    check: bounds.ids(8192),
  }),
  row('bounded', generating, 'include_reasoning stream_reasoning cache_prompt', {
    why: 'Only true. False would hide generated text from the gateway, or repeat work that nobody pays for.',
    check: bounds.isTrue,
  }),
  row('bounded', generating, 'reasoning_format', {
    why: '`none`, `auto`, `deepseek`, `deepseek-legacy`, `parsed` or `raw`. Others could hide thoughts, which would then not be counted.',
    check: bounds.reasoningFormat,
  }),
  row('bounded', generating, 'reasoning', {
    why: '`effort`, `max_tokens`, `enabled`, and `exclude` if it is false.',
    check: bounds.reasoning,
  }),
  row('bounded', generating, 'chat_template_kwargs', {
    why: '`enable_thinking`, `thinking` and similar names, with short values. A template could do anything with others.',
    check: bounds.templateKeywords,
  }),
  row('bounded', generating, 'structured_outputs', {
    why: '`json`, `json_object` and `choice`. Other members are refused for the same reason as in `response_format`.',
    check: bounds.structuredOutputs,
  }),
]

const poolingRows: readonly ParameterRow[] = [
  row(
    'passes',
    pooling,
    `truncate_prompt_tokens truncation_side truncate truncation add_special_tokens normalize normalized use_activation
     activation softmax instruct instruction`,
    { why: 'How the input is put together, and how the result is scaled.' },
  ),
  row(
    'passes',
    ['embeddings'],
    `embed_dtype endianness embedding_type embedding_types output_dimension output_dtype embd_normalize task task_type
     input_type late_chunking prompt_name`,
    { why: 'What the vectors are for, and their shape.' },
  ),
  row(
    'passes',
    ['rerank'],
    'top_n top_k return_documents return_text raw_scores rank_fields max_tokens_per_doc',
    { why: 'Which results come back, and how long documents are cut.' },
  ),
  row('word', ['rerank'], 'max_chunks_per_doc overlap_tokens', {
    why: 'The backend cuts documents into pieces, and reads the query again with each piece.',
  }),
]

const wordRows: readonly ParameterRow[] = [
  row(
    'word',
    generating,
    'chat_template generation_prompt chat_format chat_parser input_ids prompt_embeds',
    { why: 'Makes a prompt that the gateway cannot count.' },
  ),
  row(
    'word',
    generating,
    'prompt_logprobs return_prompt_token_ids return_hidden_states return_routed_experts',
    {
      why: 'Makes answers larger than what is paid for, and takes memory at the backend.',
    },
  ),
  row(
    'word',
    generating,
    'max_new_tokens min_tokens ignore_eos options keep_alive n_keep n_discard',
    {
      why: 'Can override the output limit, or makes the model generate more than it would.',
    },
  ),
  row('word', generating, 'use_beam_search early_stopping', {
    why: 'Computes several answers for one.',
  }),
  row('word', ['embeddings', 'rerank'], 'options keep_alive', {
    why: 'Changes how the model runs.',
  }),
  row('word', all, 'models route provider plugins transforms preset', {
    why: 'Selects another, more expensive model, or adds tools to it (OpenRouter).',
  }),
  row(
    'word',
    all,
    `api_base base_url api_key api_version fallbacks num_retries timeout mock_response extra_headers headers tags
     guardrails cache caching custom_llm_provider user_config`,
    { why: 'Reaches other systems, or controls a proxy behind the target (LiteLLM).' },
  ),
  row('word', all, 'usage', { why: 'The gateway and the backend agree on how usage is reported.' }),
  row(
    'word',
    all,
    `kv_transfer_params bootstrap_host bootstrap_port bootstrap_room routed_dp_rank data_parallel_rank
     disagg_prefill_dp_rank vllm_xargs logits_processors custom_logit_processor custom_params custom_labels`,
    { why: 'Addresses, code and switches inside the backend (vLLM, SGLang).' },
  ),
  row(
    'word',
    all,
    `session_params session_id id_slot slot_id n_cache_reuse extra_key ngram_corpus_id rid request_id
     return_cached_tokens_details return_progress return_meta_info verbose`,
    { why: "Changes or shows what other accounts' requests left at the backend." },
  ),
  row('word', all, 'lora lora_path priority', { why: 'Another model, or a higher priority.' }),
  row(
    'word',
    all,
    'mm_processor_kwargs media_io_kwargs images_config max_dynamic_patch min_dynamic_patch use_audio_in_video',
    { why: 'Changes how many tokens an image, a video or sound costs.' },
  ),
  row(
    'word',
    generating,
    `guided_regex guided_grammar guided_decoding_backend guided_whitespace_pattern grammar grammar_lazy grammar_triggers
     preserved_tokens regex ebnf structural_tag stop_regex`,
    {
      why: 'A regular expression or a grammar can keep the backend busy for minutes, for all accounts.',
    },
  ),
]

export const parameterRows: readonly ParameterRow[] = [
  ...gatewayRows,
  ...openaiRows,
  ...samplerRows,
  ...poolingRows,
  ...wordRows,
]
