"""ckb-debugger's JSON as messages, in molecule encoding."""

from antares.v1 import runner_pb2

HASH_TYPES = {"data": 0, "type": 1, "data1": 2, "data2": 4}
DEP_TYPES = {"code": 0, "dep_group": 1}


def _bytes(text):
    if not text.startswith("0x"):
        raise ValueError(f"{text[:20]!r} does not begin with 0x")
    return bytes.fromhex(text[2:])


def _number(text, width):
    return int(text, 16).to_bytes(width, "little")


def _count(number):
    return number.to_bytes(4, "little")


def _fixvec(items):
    return _count(len(items)) + b"".join(items)


def _table(fields):
    """A table, or a vector of things that differ in length: both have offsets."""
    at, head = 4 + 4 * len(fields), b""
    for field in fields:
        head += _count(at)
        at += len(field)
    return _count(at) + head + b"".join(fields)


def _data(content):
    return _count(len(content)) + content


def _script(script):
    return _table([_bytes(script["code_hash"]), bytes([HASH_TYPES[script["hash_type"]]]), _data(_bytes(script["args"]))])


def _output(output):
    script = output.get("type")
    return _table([_number(output["capacity"], 8), _script(output["lock"]), _script(script) if script else b""])


def _out_point(point):
    return _bytes(point["tx_hash"]) + _number(point["index"], 4)


def _input(entry):
    return _number(entry["since"], 8) + _out_point(entry["previous_output"])


def _cell_dep(dep):
    return _out_point(dep["out_point"]) + bytes([DEP_TYPES[dep["dep_type"]]])


def _transaction(tx):
    raw = _table([
        _number(tx["version"], 4),
        _fixvec([_cell_dep(dep) for dep in tx["cell_deps"]]),
        _fixvec([_bytes(dep) for dep in tx["header_deps"]]),
        _fixvec([_input(entry) for entry in tx["inputs"]]),
        _table([_output(output) for output in tx["outputs"]]),
        _table([_data(_bytes(data)) for data in tx["outputs_data"]]),
    ])
    return _table([raw, _table([_data(_bytes(witness)) for witness in tx["witnesses"]])])


def _header(header):
    return b"".join([
        _number(header["version"], 4),
        _number(header["compact_target"], 4),
        _number(header["timestamp"], 8),
        _number(header["number"], 8),
        _number(header["epoch"], 8),
        *(_bytes(header[key]) for key in ("parent_hash", "transactions_root", "proposals_hash", "extra_hash", "dao")),
        _number(header["nonce"], 16),
    ])


def fields_of(mock, name):
    """TransactionFields of a mock transaction. `name` gives the digest under which data goes, or None."""
    info, tx = mock["mock_info"], mock["tx"]

    def cell(entry):
        data = _bytes(entry["data"])
        digest = name(data)
        block = entry.get("header")
        return runner_pb2.CellFields(
            output=_output(entry["output"]),
            data=b"" if digest else data,
            data_sha256=digest,
            block_hash=_bytes(block) if block else None,
        )

    given = {_out_point(entry["input"]["previous_output"]): entry for entry in info["inputs"]}
    places = [_out_point(entry["previous_output"]) for entry in tx["inputs"]]
    missing = next((place for place in places if place not in given), None)
    if missing is not None:
        raise ValueError(f"no entry of mock_info.inputs gives the cell 0x{missing[:32].hex()}")
    return runner_pb2.TransactionFields(
        tx=_transaction(tx),
        inputs=[cell(given[place]) for place in places],
        cell_deps=[
            runner_pb2.CellDepFields(out_point=_out_point(entry["cell_dep"]["out_point"]), cell=cell(entry))
            for entry in info["cell_deps"]
        ],
        headers=[_header(header) for header in info["header_deps"]],
        extensions=[
            runner_pb2.BlockExtension(block_hash=_bytes(block), extension=_bytes(extension))
            for block, extension in info.get("extensions", [])
        ],
    )
