"""A program with types, which mypy --strict accepts."""

from antares.v1 import runner_pb2
from antares_client import AsyncClient, Client, Refused


def cycles(address: str, transaction: bytes) -> int:
    with Client(address, deadline_s=30) as client:
        try:
            answer = client.verify(transaction, limits=runner_pb2.RunLimits(max_cycles=1000), diagnosis=True)
        except Refused as refused:
            print(refused.code, refused.reason, [field for field, _ in refused.violations])
            raise
        for place, result in client.verify_session([transaction, "{}"], diagnosis=True):
            print(place, result.code if isinstance(result, Refused) else result.cycles)
        client.verify_bare(transaction, tier=runner_pb2.TIER_INTERPRETER)
        return answer.cycles + client.execute(b"", ["7"]).verdict.cycles


async def outcome(address: str, transaction: bytes) -> int:
    async with AsyncClient(address, tenant="author") as client:
        async for place, result in client.verify_session([transaction, {"tx": {}}]):
            print(place, result.reason if isinstance(result, Refused) else result.outcome)
        run: int = (await client.execute(b"")).verdict.exit_code
        return run + (await client.verify(transaction)).cycles
