"""Pictures by opaque addresses: nothing but pixels, and nothing but what one was shown."""

from __future__ import annotations

import io
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from glasshouse.annotate.pictures import pixels, seal


def first(client):
    return client.get("/api/work").json()["items"][0]


def test_the_pixels_are_the_stored_ones(make_study):
    study = make_study()
    client = study.client(study.tokens[0])
    item = first(client)
    answer = client.get(item["pictures"][0]["address"])
    assert answer.headers["Content-Type"] == "image/png"
    stored = study.votes.item(item["id"])
    shown, truth = (
        np.asarray(Image.open(source)) for source in (io.BytesIO(answer.content), study.directory / stored.image)
    )
    assert (shown == truth).all()


def test_a_pair_shows_the_original_first(make_study):
    study = make_study(task="pair")
    client = study.client(study.tokens[0])
    item = first(client)
    stored = study.votes.item(item["id"])
    expected = [pixels(study.directory, stored.beside), pixels(study.directory, stored.image)]
    assert [client.get(one["address"]).content for one in item["pictures"]] == expected


def test_comments_inside_a_file_stay_inside(make_study):
    study = make_study()
    comment = PngInfo()
    comment.add_text("Comment", "class rocket, model lenet")
    Image.new("RGB", (4, 4)).save(study.directory / "images" / "named.png", pnginfo=comment)
    assert b"rocket" in (study.directory / "images" / "named.png").read_bytes()
    assert b"rocket" not in pixels(study.directory, "images/named.png")


def test_nothing_an_annotator_receives_says_where_it_comes_from(make_study):
    study = make_study(versions=2)
    client = study.client(study.tokens[0])
    work = client.get("/api/work")
    picture = client.get(work.json()["items"][0]["pictures"][0]["address"])
    received = "".join((work.text, str(work.headers), str(picture.headers)))
    for item in study.votes.items():
        for hidden in (item.image, item.condition, item.case_key, item.original, '"truth"', '"role"'):
            assert hidden not in received


def test_only_the_pictures_that_one_was_shown_can_be_fetched(make_study):
    study = make_study(annotators=2)
    mine, other = (study.client(token) for token in study.tokens)
    address = first(mine)["pictures"][0]["address"]
    assert other.get(address).status_code == 403
    assert study.client().get(address).status_code == 403
    shown = {item["id"] for item in mine.get("/api/work").json()["items"]}
    hidden = next(item for item in study.votes.items() if item.id not in shown)
    assert mine.get(f"/images/{hidden.id}/image/{'0' * 32}").status_code == 403
    assert mine.get(f"/images/{hidden.id}/image/{seal(study.tokens[1], hidden.id, 'image')}").status_code == 403


@pytest.mark.parametrize(
    "path", ["../secret.png", "/etc/hostname", "images/../../secret.png", "images/none.png", "images"]
)
def test_a_database_that_points_outside_the_study_shows_nothing(make_study, path):
    study = make_study()
    Image.new("RGB", (4, 4)).save(study.directory.parent / "secret.png")
    item = replace(study.votes.items()[0], id="f" * 32, place=99, image=path)
    study.votes.add_items([item])
    client = study.client(study.tokens[0])
    assert client.get(f"/images/{item.id}/image/{seal(study.tokens[0], item.id, 'image')}").status_code == 404


@pytest.mark.parametrize("kind", ["cut", "BMP", "text"])
def test_what_is_no_whole_png_is_no_picture(make_study, kind):
    study = make_study()
    picture = study.directory / "images" / "other.png"
    written = io.BytesIO()
    Image.effect_noise((64, 64), 50).save(written, "BMP" if kind == "BMP" else "PNG")
    picture.write_bytes({"cut": written.getvalue()[:500], "BMP": written.getvalue(), "text": b"secret"}[kind])
    item = replace(study.votes.items()[0], id="f" * 32, place=99, image="images/other.png")
    study.votes.add_items([item])
    answer = study.client(study.tokens[0]).get(f"/images/{item.id}/image/{seal(study.tokens[0], item.id, 'image')}")
    assert answer.status_code == 404
    assert answer.headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize(
    "path",
    [
        "/images/../glasshouse.db",
        "/images/%2e%2e%2fglasshouse.db/image/" + "0" * 32,
        "/static/../app.py",
        "/static/..%2fapp.py",
        "/static/%2fetc%2fhostname",
        "/glasshouse.db",
    ],
)
def test_no_path_of_a_request_reaches_the_files(make_study, path):
    study = make_study()
    answer = study.client(study.tokens[0]).get(path)
    assert answer.status_code in (403, 404, 422)
