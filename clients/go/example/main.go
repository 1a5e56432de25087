// Prints the answer to a transaction, or to a run of a script, as JSON.
//
//	client verify HOST:PORT TX.json
//	client run HOST:PORT SCRIPT ARG...
//
// ANTARES_TLS_CA, ANTARES_TLS_CERT and ANTARES_TLS_KEY name files, ANTARES_TOKEN_FILE one with a token.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	antares "github.com/antares-vm/antares/clients/go"
)

// transport is encrypted if an authority is named.
func transport() (credentials.TransportCredentials, error) {
	ca := os.Getenv("ANTARES_TLS_CA")
	if ca == "" {
		return insecure.NewCredentials(), nil
	}
	pem, err := os.ReadFile(ca)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s: no certificates", ca)
	}
	config := &tls.Config{RootCAs: roots}
	if certificate := os.Getenv("ANTARES_TLS_CERT"); certificate != "" {
		pair, err := tls.LoadX509KeyPair(certificate, os.Getenv("ANTARES_TLS_KEY"))
		if err != nil {
			return nil, err
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return credentials.NewTLS(config), nil
}

func answer(verb, address, path string, args []string) (proto.Message, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	secure, err := transport()
	if err != nil {
		return nil, err
	}
	client, err := antares.New(address, grpc.WithTransportCredentials(secure))
	if err != nil {
		return nil, err
	}
	defer client.Close()
	if path := os.Getenv("ANTARES_TOKEN_FILE"); path != "" {
		token, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		client = client.WithMetadata("authorization", "Bearer "+strings.TrimSpace(string(token)))
	}
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Second)
	defer cancel()
	if verb == "verify" {
		return client.Verify(ctx, content, nil)
	}
	return client.Execute(ctx, content, args, nil)
}

func main() {
	if len(os.Args) < 4 || (os.Args[1] != "verify" && os.Args[1] != "run") {
		fmt.Fprintln(os.Stderr, "usage: client verify HOST:PORT TX.json | client run HOST:PORT SCRIPT ARG...")
		os.Exit(2)
	}
	found, err := answer(os.Args[1], os.Args[2], os.Args[3], os.Args[4:])
	if err == nil {
		var text []byte
		if text, err = protojson.Marshal(found); err == nil {
			fmt.Println(string(text))
			return
		}
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
