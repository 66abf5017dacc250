"""OpenRouter's other answers as JSON: the models, a model's endpoints, one generation, the key. Pure.

Made from OpenRouter's public documentation and from what its official Python SDK asks for; nothing was recorded live.
Values that no one here looks at are the emptiest that the SDK takes.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from harness.presets import Answer, Preset
from harness.wire import Head, cost

Json = dict[str, Any]
PARAMETERS = (
    "include_reasoning",
    "max_tokens",
    "reasoning",
    "seed",
    "stop",
    "temperature",
    "tool_choice",
    "tools",
    "top_p",
)
CREATED = 1_769_472_000


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One provider's offer of the model.

    Attributes:
        tag: The slug with its variant, `siliconflow/int4`.
    """

    tag: str
    preset: Preset
    quantization: str = "int4"
    context_length: int = 262_144
    max_completion_tokens: int | None = None
    parameters: tuple[str, ...] = PARAMETERS
    prices: tuple[float, float] = (5e-7, 2.5e-6)

    def answers_to(self, pin: str) -> bool:
        """Whether a pin in the request means this endpoint: its tag, or its slug without the variant."""
        return pin.lower() in (self.tag, self.tag.partition("/")[0])


def _pricing(prices: tuple[float, float]) -> Json:
    return {"prompt": f"{prices[0]:.10f}", "completion": f"{prices[1]:.10f}", "request": "0", "image": "0"}


_ARCHITECTURE = {
    "modality": "text->text",
    "input_modalities": ["text"],
    "output_modalities": ["text"],
    "tokenizer": "Other",
    "instruct_type": None,
}


def models(model: str, endpoints: Iterable[Endpoint]) -> Json:
    """GET /models."""
    offers = tuple(endpoints)
    top = offers[0]
    entry = {
        "id": model,
        "canonical_slug": model,
        "name": model,
        "created": CREATED,
        "description": "emulated",
        "context_length": top.context_length,
        "architecture": _ARCHITECTURE,
        "pricing": _pricing(top.prices),
        "top_provider": {
            "context_length": top.context_length,
            "max_completion_tokens": top.max_completion_tokens,
            "is_moderated": False,
        },
        "per_request_limits": None,
        "supported_parameters": sorted({p for offer in offers for p in offer.parameters}),
        "default_parameters": None,
        "supported_voices": None,
        "links": {"details": f"/api/v1/models/{model}/endpoints"},
    }
    return {"data": [entry], "links": {"next": None}, "total_count": 1}


def endpoints(model: str, offers: Iterable[Endpoint]) -> Json:
    """GET /models/{author}/{slug}/endpoints."""
    listed = [_endpoint(model, offer) for offer in offers]
    head = {"id": model, "name": model, "created": CREATED, "description": "emulated"}
    return {"data": {**head, "architecture": _ARCHITECTURE, "endpoints": listed}}


def _endpoint(model: str, offer: Endpoint) -> Json:
    return {
        "name": f"{offer.preset.provider} | {model}",
        "model_id": model,
        "model_name": model,
        "context_length": offer.context_length,
        "pricing": _pricing(offer.prices),
        "provider_name": offer.preset.provider,
        "tag": offer.tag,
        "quantization": offer.quantization,
        "max_completion_tokens": offer.max_completion_tokens,
        "max_prompt_tokens": None,
        "supported_parameters": list(offer.parameters),
        "status": 0,
        "uptime_last_30m": 100.0,
        "uptime_last_5m": 100.0,
        "uptime_last_1d": 100.0,
        "latency_last_30m": None,
        "throughput_last_30m": None,
        "supports_implicit_caching": False,
        "supports_diarization": False,
        "supports_tool_choice": {"auto": True, "function": True, "none": True, "required": True},
        "native_tools": {},
        "service_tier": None,
    }


_GENERATION_BLANKS = (
    "app_id",
    "cache_discount",
    "external_user",
    "http_referer",
    "moderation_latency",
    "native_tokens_completion_images",
    "num_fetches",
    "num_input_audio_prompt",
    "num_media_completion",
    "num_media_prompt",
    "num_search_results",
    "preset_id",
    "provider_responses",
    "router",
    "service_tier",
    "user_agent",
    "web_search_engine",
    "workspace_id",
)


def generation(said: Answer, head: Head, *, created_at: str, streamed: bool, cancelled: bool = False) -> Json:
    """GET /generation of one finished answer."""
    usage = said.usage
    total = cost(usage, head.prices)
    data = {
        "id": head.id,
        "model": head.model,
        "provider_name": head.provider,
        "created_at": created_at,
        "streamed": streamed,
        "cancelled": cancelled,
        "finish_reason": said.finish_reason,
        "native_finish_reason": said.finish_reason,
        "tokens_prompt": usage.prompt_tokens,
        "tokens_completion": usage.completion_tokens,
        "native_tokens_prompt": usage.prompt_tokens,
        "native_tokens_completion": usage.completion_tokens,
        "native_tokens_reasoning": usage.reasoning_tokens,
        "native_tokens_cached": 0,
        "total_cost": total,
        "usage": total,
        "upstream_inference_cost": total,
        "upstream_id": f"chatcmpl-{head.id}",
        "is_byok": False,
        "api_type": "completions",
        "origin": "",
        "data_region": "global",
        "latency": 1.0,
        "generation_time": 1.0,
    }
    return {"data": {**data, **dict.fromkeys(_GENERATION_BLANKS)}}


def key(label: str, limit: float | None, spent: float) -> Json:
    """GET /key."""
    blanks: Mapping[str, None] = dict.fromkeys(
        ("creator_user_id", "effective_budget", "limit_reset", "organization_id", "workspace_id")
    )
    return {
        "data": {
            "label": label,
            "limit": limit,
            "limit_remaining": None if limit is None else max(0.0, limit - spent),
            "usage": spent,
            "usage_daily": spent,
            "usage_weekly": spent,
            "usage_monthly": spent,
            "byok_usage": 0.0,
            "byok_usage_daily": 0.0,
            "byok_usage_weekly": 0.0,
            "byok_usage_monthly": 0.0,
            "include_byok_in_limit": False,
            "is_free_tier": False,
            "is_management_key": False,
            "is_provisioning_key": False,
            "rate_limit": {"requests": -1, "interval": "10s", "note": "This field is deprecated"},
            "free_model_daily_requests": {"limit": 50, "remaining": 50, "used": 0},
            "allowed_data_regions": ["global"],
            "budgets": [],
            **blanks,
        }
    }
