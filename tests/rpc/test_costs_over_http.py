"""What model calls have cost: over HTTP, by both clients, on the command line, for Prometheus."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime

import pytest

from gralkord.client.client import AsyncClient
from gralkord.client.sync import Client
from gralkord.config import Budget, Server
from gralkord.daemon.costs import CostReports
from gralkord.errors import InvalidInput
from gralkord.mailbox.budgets import Budgets
from gralkord.mailbox.connection import open_queue
from gralkord.mailbox.keys import Keys
from gralkord.mailbox.ledger import Account, Counts, SpendBook

DAY = date(2026, 5, 10)
BUDGET = Budget.model_validate(
    {
        "tenant": {"usd": 1.0},
        "operator": {"tokens": 1_000},
        "operators": {"bob": {"tokens": 5_000}, "eve": {"tokens": 0}},
    }
)


class Clock:
    """It is noon of the tenth."""

    def now(self):
        return datetime(2026, 5, 10, 12, tzinfo=UTC)


class Reports:
    """The daemon's reports, with a connection for each: the app runs on several event loops."""

    def __init__(self, socket):
        self.socket = socket

    def __getattr__(self, name):
        async def ask(*args):
            async with open_queue(Server(socket=self.socket)) as client:
                reports = CostReports(SpendBook(client, Keys()), Budgets(BUDGET), Clock())
                return await getattr(reports, name)(*args)

        return ask


@pytest.fixture
async def book(queue_socket, services):
    """A ledger of three days, of two tenants, that the daemon reads."""
    services.costs = Reports(queue_socket)
    client = open_queue(Server(socket=queue_socket))
    book = SpendBook(client, Keys())

    def row(counts, operator="ann", stage="extract", day=DAY, tenant="default", model="openai:m"):
        return Account(tenant, operator, "default", "llm", model, stage, day), Counts(*counts)

    await book.add(
        "me",
        1,
        [
            row((2, 1_000, 400, 100, 3_000, 500_000_000, 0)),
            row((1, 500, 0, 50, 1_000, 0, 1), stage="summary", model='odd"m'),
            row((3, 900, 0, 30, 900, 600_000_000, 0), operator="bob"),
            row((4, 400, 0, 0, 400, 100_000_000, 0), day=date(2026, 4, 1)),
            row((7, 700, 0, 0, 700, 0, 0), day=date(2026, 5, 1), operator=None),
            row((9, 900, 0, 0, 900, 900_000_000, 0), tenant="other"),
        ],
    )
    yield book
    await client.aclose()


async def test_rows_are_what_was_asked_for(book, http):
    """Thirty days by stage, the most expensive first, with the total of all."""
    answer = (await http.get("/v1/costs")).json()
    assert (answer["since"], answer["until"], answer["by"]) == ("2026-04-11", "2026-05-10", "stage")
    assert [(row["key"], row["calls"]) for row in answer["rows"]] == [
        ("extract", 12),
        ("summary", 1),
    ]
    assert answer["total"] == {
        "calls": 13,
        "prompt_tokens": 3_100,
        "cached_tokens": 400,
        "completion_tokens": 180,
        "seconds": 5.6,
        "usd": 1.1,
        "unpriced_calls": 1,
    }


@pytest.mark.parametrize(
    ("by", "keys"),
    [
        ("operator", ["bob", "ann", None]),
        ("model", ["openai:m", 'odd"m']),
        ("lens", ["default"]),
        ("role", ["llm"]),
        ("day", ["2026-05-01", "2026-05-10"]),
    ],
)
async def test_rows_by_anything_add_up_to_the_same_total(book, http, by, keys):
    """However they are put together, no call is missing or counted twice."""
    answer = (await http.get("/v1/costs", params={"by": by})).json()
    assert [row["key"] for row in answer["rows"]] == keys
    assert sum(row["calls"] for row in answer["rows"]) == answer["total"]["calls"] == 13


async def test_one_operator_and_a_range_of_days(book, http):
    """Only its own calls, of those days only, its own budget and its tenant's."""
    query = {"operator": "ann", "since": "2026-04-01", "until": "2026-04-01", "by": "model"}
    answer = (await http.get("/v1/costs", params=query)).json()
    assert answer["total"]["calls"] == 4
    assert [budget["operator"] for budget in answer["budgets"]] == [None, "ann"]


async def test_budgets_say_what_is_spent_of_them_today(book, http):
    """That of the tenant first, then those of operators."""
    budgets = (await http.get("/v1/costs")).json()["budgets"]
    told = [
        (one["operator"], one["spent_usd"], one["spent_tokens"], one["state"]) for one in budgets
    ]
    assert told == [
        (None, 1.1, 2_580, "spent"),
        ("ann", 0.5, 1_650, "spent"),
        ("bob", 0.6, 930, "ok"),
        ("eve", 0.0, 0, "spent"),
    ]
    assert {one["resets_at"] for one in budgets} == {"2026-05-11T00:00:00Z"}


async def test_status_says_whether_understanding_is_paused(book, services):
    """One word for the tenant, and how many operators have nothing left."""
    assert await services.costs.state("default") == {
        "state": "spent",
        "spent_usd": 1.1,
        "spent_tokens": 2_580,
        "operators_spent": 2,
        "resets_at": "2026-05-11T00:00:00Z",
    }
    assert (await services.costs.state("other"))["state"] == "ok"


async def test_days_that_do_not_tell_operators_apart_are_named(book, http, queue_socket):
    """They are in the costs of all, without a name, and not in those of one."""
    async with open_queue(Server(socket=queue_socket)) as client:
        [key] = await client.keys("gk:spenders:default:*20583")
        await client.delete(key)
    answer = (await http.get("/v1/costs", params={"by": "operator"})).json()
    assert (answer["days_without_operators"], answer["total"]["calls"]) == (1, 13)
    assert [row["key"] for row in answer["rows"]] == [None]
    answer = (await http.get("/v1/costs", params={"operator": "ann"})).json()
    assert (answer["days_without_operators"], answer["total"]["calls"]) == (1, 0)


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"by": "moon"}, "by"),
        ({"since": "yesterday"}, "since"),
        ({"since": "2026-05-02", "until": "2026-05-01"}, "since"),
        ({"since": "2020-01-01", "until": "2026-05-01"}, "since"),
        ({"until": "0001-01-05"}, "until"),
        ({"since": "0001-01-01", "until": "0001-01-02"}, "since"),
        ({"operator": " "}, "operator"),
        ({"month": "5"}, "month"),
    ],
)
async def test_a_bad_question_is_refused_with_its_field(book, http, query, field):
    """Nothing is guessed."""
    answer = await http.get("/v1/costs", params=query)
    assert (answer.status_code, answer.json()["error"]["field"]) == (422, field)


async def test_both_clients_ask_the_same(book, daemon, home):
    """The answer is the same model, and what is not acceptable is not sent."""
    with Client(daemon, "test-token-0123456789") as client:
        found = client.costs("model", since=date(2026, 5, 1), until="2026-05-10")
        with pytest.raises(InvalidInput):
            client.costs(since="tomorrow")
    async with AsyncClient(daemon, "test-token-0123456789") as client:
        assert await client.costs("model", since="2026-05-01", until=date(2026, 5, 10)) == found
    assert found.total.calls == 13


async def test_the_command_prints_rows_for_programs(book, cli):
    """A line a row between tabs, budgets aside; JSON as the daemon answers it."""
    code, out, err = cli("costs", "--by", "operator")
    assert code == 0
    assert out.splitlines()[0].split("\t") == ["bob", "3", "900", "0", "30", "0.9", "0.600000", "0"]
    assert out.splitlines()[-1].startswith("total\t13\t3100\t400\t180\t")
    assert "budget of the tenant today: 1.10 of 1.00 USD; spent until 2026-05-11T00:00:00Z" in err
    code, out, _ = cli("costs", "--operator", "bob", "--json")
    assert json.loads(out)["total"]["calls"] == 3


async def test_metrics_are_read_by_prometheus(book, http):
    """Counters of all time with a type each; names are escaped; other tenants are not in them."""
    answer = await http.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    lines = answer.text.splitlines()
    assert "# TYPE gralkord_model_calls_total counter" in lines
    labels = '{role="llm",model="openai:m",stage="extract"}'
    assert f"gralkord_model_calls_total{labels} 16" in lines
    assert f"gralkord_model_cost_usd_total{labels} 1.2" in lines
    assert (
        'gralkord_model_unpriced_calls_total{role="llm",model="odd\\"m",stage="summary"} 1' in lines
    )
    assert 'gralkord_budgets_spent{whose="operator"} 2' in lines


async def test_metrics_need_the_token(book, bare):
    """What is spent is not told to every user of the machine."""
    assert (await bare.get("/metrics")).status_code == 401
