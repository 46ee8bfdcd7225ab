"""Reviews: questions about users and their rights, which are answered and not stored."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import msgspec

from moorage.api.meta import Data
from moorage.apiserver.access import reviews
from moorage.apiserver.base.users import User
from moorage.apiserver.http.failures import bad_request
from moorage.apiserver.http.media import PLAIN
from moorage.apiserver.http.messages import Refused, Request, Response
from moorage.apiserver.request.bodies import parsed
from moorage.apiserver.request.routes import Route
from moorage.apiserver.verbs.backend import Backend, RouteHandler
from moorage.apiserver.verbs.read import form_of

Review = Callable[[Backend, Route, User, Data], Data]
"""Gives the status of a review that a user has sent."""


async def _answer(review: Review, backend: Backend, route: Route, request: Request) -> Response:
    form_of(request, PLAIN)  # a review has no table
    body = await parsed(request)
    if not isinstance(body, dict):
        raise bad_request("the body must be an object")
    assert request.user is not None
    return Response(201, msgspec.json.encode(body | {"status": review(backend, route, request.user, body)}))


def _self_subject_access(backend: Backend, _: Route, user: User, body: Data) -> Data:
    return reviews.self_subject_access_review(backend.rbac, user, body)


def _self_subject_rules(backend: Backend, _: Route, user: User, body: Data) -> Data:
    return reviews.self_subject_rules_review(backend.rbac, user, body)


def _subject_access(backend: Backend, _: Route, _user: User, body: Data) -> Data:
    return reviews.subject_access_review(backend.rbac, body)


def _local_subject_access(backend: Backend, route: Route, _: User, body: Data) -> Data:
    return reviews.local_subject_access_review(backend.rbac, route.namespace, body)


def _self_subject(_: Backend, _route: Route, user: User, _body: Data) -> Data:
    return {"userInfo": reviews.user_info(user)}


def _token(backend: Backend, _: Route, _user: User, body: Data) -> Data:
    token = reviews.token_spec(body).token
    try:
        user = backend.authenticator.by_token(token)
    except Refused:
        return {"authenticated": False, "error": "the token is not valid"}
    return {"authenticated": True, "user": reviews.user_info(user)}


REVIEWS: dict[str, RouteHandler] = {
    "localsubjectaccessreviews": partial(_answer, _local_subject_access),
    "selfsubjectaccessreviews": partial(_answer, _self_subject_access),
    "selfsubjectreviews": partial(_answer, _self_subject),
    "selfsubjectrulesreviews": partial(_answer, _self_subject_rules),
    "subjectaccessreviews": partial(_answer, _subject_access),
    "tokenreviews": partial(_answer, _token),
}
"""What answers the reviews, by resource."""
