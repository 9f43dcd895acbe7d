"""The owner's live overview: how far the study is, who votes how, and where people disagree."""

from __future__ import annotations

from fastapi import APIRouter

router = APIRouter(prefix="/api", tags=["owner"])
