package antares

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/big"
	"strings"

	"github.com/antares-vm/antares/clients/go/antaresv1"
)

type script struct {
	CodeHash string `json:"code_hash"`
	HashType string `json:"hash_type"`
	Args     string `json:"args"`
}

type output struct {
	Capacity string  `json:"capacity"`
	Lock     script  `json:"lock"`
	Type     *script `json:"type"`
}

type outPoint struct {
	TxHash string `json:"tx_hash"`
	Index  string `json:"index"`
}

type input struct {
	Since          string   `json:"since"`
	PreviousOutput outPoint `json:"previous_output"`
}

type cellDep struct {
	OutPoint outPoint `json:"out_point"`
	DepType  string   `json:"dep_type"`
}

type cell struct {
	Input   input   `json:"input"`
	CellDep cellDep `json:"cell_dep"`
	Output  output  `json:"output"`
	Data    string  `json:"data"`
	Header  *string `json:"header"`
}

type mock struct {
	MockInfo struct {
		Inputs     []cell              `json:"inputs"`
		CellDeps   []cell              `json:"cell_deps"`
		HeaderDeps []map[string]string `json:"header_deps"`
		Extensions [][2]string         `json:"extensions"`
	} `json:"mock_info"`
	Tx struct {
		Version     string    `json:"version"`
		CellDeps    []cellDep `json:"cell_deps"`
		HeaderDeps  []string  `json:"header_deps"`
		Inputs      []input   `json:"inputs"`
		Outputs     []output  `json:"outputs"`
		OutputsData []string  `json:"outputs_data"`
		Witnesses   []string  `json:"witnesses"`
	} `json:"tx"`
}

var (
	hashTypes = map[string]byte{"data": 0, "type": 1, "data1": 2, "data2": 4}
	depTypes  = map[string]byte{"code": 0, "dep_group": 1}
)

// encoder writes molecule, and keeps the first mistake.
type encoder struct{ err error }

func (to *encoder) wrong(format string, args ...any) []byte {
	if to.err == nil {
		to.err = fmt.Errorf(format, args...)
	}
	return nil
}

func (to *encoder) bytes(text string) []byte {
	digits, found := strings.CutPrefix(text, "0x")
	content, err := hex.DecodeString(digits)
	if !found || err != nil {
		return to.wrong("%.20q is not 0x and pairs of hex digits", text)
	}
	return content
}

func (to *encoder) number(text string, width int) []byte {
	found, ok := new(big.Int).SetString(strings.TrimPrefix(text, "0x"), 16)
	if !ok || found.Sign() < 0 || found.BitLen() > 8*width {
		return to.wrong("%.40q is no number of %d bytes", text, width)
	}
	content := found.FillBytes(make([]byte, width))
	for left, right := 0, width-1; left < right; left, right = left+1, right-1 {
		content[left], content[right] = content[right], content[left]
	}
	return content
}

func (to *encoder) one(values map[string]byte, name string) []byte {
	value, found := values[name]
	if !found {
		return to.wrong("there is no %.20q", name)
	}
	return []byte{value}
}

func count(length int) []byte { return binary.LittleEndian.AppendUint32(nil, uint32(length)) }

func joined(parts ...[]byte) []byte {
	var all []byte
	for _, part := range parts {
		all = append(all, part...)
	}
	return all
}

func fixvec(items [][]byte) []byte { return append(count(len(items)), joined(items...)...) }

// table is a table, or a vector of things that differ in length: both have offsets.
func table(fields ...[]byte) []byte {
	at := 4 + 4*len(fields)
	var head []byte
	for _, field := range fields {
		head = append(head, count(at)...)
		at += len(field)
	}
	return joined(count(at), head, joined(fields...))
}

func each[T any](list []T, encode func(T) []byte) [][]byte {
	found := make([][]byte, len(list))
	for at, one := range list {
		found[at] = encode(one)
	}
	return found
}

func (to *encoder) data(text string) []byte {
	content := to.bytes(text)
	return append(count(len(content)), content...)
}

func (to *encoder) script(of script) []byte {
	return table(to.bytes(of.CodeHash), to.one(hashTypes, of.HashType), to.data(of.Args))
}

func (to *encoder) output(of output) []byte {
	var typed []byte
	if of.Type != nil {
		typed = to.script(*of.Type)
	}
	return table(to.number(of.Capacity, 8), to.script(of.Lock), typed)
}

func (to *encoder) outPoint(of outPoint) []byte {
	return append(to.bytes(of.TxHash), to.number(of.Index, 4)...)
}

func (to *encoder) input(of input) []byte {
	return append(to.number(of.Since, 8), to.outPoint(of.PreviousOutput)...)
}

func (to *encoder) cellDep(of cellDep) []byte {
	return append(to.outPoint(of.OutPoint), to.one(depTypes, of.DepType)...)
}

func (to *encoder) transaction(of *mock) []byte {
	tx := &of.Tx
	raw := table(
		to.number(tx.Version, 4),
		fixvec(each(tx.CellDeps, to.cellDep)),
		fixvec(each(tx.HeaderDeps, to.bytes)),
		fixvec(each(tx.Inputs, to.input)),
		table(each(tx.Outputs, to.output)...),
		table(each(tx.OutputsData, to.data)...),
	)
	return table(raw, table(each(tx.Witnesses, to.data)...))
}

func (to *encoder) header(of map[string]string) []byte {
	return joined(
		to.number(of["version"], 4), to.number(of["compact_target"], 4), to.number(of["timestamp"], 8),
		to.number(of["number"], 8), to.number(of["epoch"], 8),
		to.bytes(of["parent_hash"]), to.bytes(of["transactions_root"]), to.bytes(of["proposals_hash"]),
		to.bytes(of["extra_hash"]), to.bytes(of["dao"]), to.number(of["nonce"], 16),
	)
}

// Fields is a transaction in ckb-debugger's JSON as messages. name gives the digest under which data goes, or nothing.
func Fields(text []byte, name func(data []byte) string) (*antaresv1.TransactionFields, error) {
	var from mock
	if err := json.Unmarshal(text, &from); err != nil {
		return nil, err
	}
	to, info := &encoder{}, &from.MockInfo
	cellOf := func(of cell) *antaresv1.CellFields {
		fields := &antaresv1.CellFields{Output: to.output(of.Output), Data: to.bytes(of.Data)}
		if digest := name(fields.Data); digest != "" {
			fields.Data, fields.DataSha256 = nil, &digest
		}
		if of.Header != nil {
			fields.BlockHash = to.bytes(*of.Header)
		}
		return fields
	}
	fields := &antaresv1.TransactionFields{Tx: to.transaction(&from), Headers: each(info.HeaderDeps, to.header)}
	given := map[string]cell{}
	for _, entry := range info.Inputs {
		given[string(to.outPoint(entry.Input.PreviousOutput))] = entry
	}
	for _, entry := range from.Tx.Inputs {
		found, there := given[string(to.outPoint(entry.PreviousOutput))]
		if !there {
			to.wrong("no entry of mock_info.inputs gives the cell %s:%s", entry.PreviousOutput.TxHash, entry.PreviousOutput.Index)
		}
		fields.Inputs = append(fields.Inputs, cellOf(found))
	}
	for _, entry := range info.CellDeps {
		dep := &antaresv1.CellDepFields{OutPoint: to.outPoint(entry.CellDep.OutPoint), Cell: cellOf(entry)}
		fields.CellDeps = append(fields.CellDeps, dep)
	}
	for _, pair := range info.Extensions {
		extension := &antaresv1.BlockExtension{BlockHash: to.bytes(pair[0]), Extension: to.bytes(pair[1])}
		fields.Extensions = append(fields.Extensions, extension)
	}
	return fields, to.err
}
