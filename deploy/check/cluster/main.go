// The parts of a Kubernetes cluster, and kubectl, as one program: they share almost all of what must be compiled and linked. The first argument
// says which part, the others are that part's own.
package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectl "k8s.io/kubectl/pkg/cmd"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	nodes "sigs.k8s.io/kwok/kustomize/stage/node/fast"
	leases "sigs.k8s.io/kwok/kustomize/stage/node/heartbeat-with-lease"
	pods "sigs.k8s.io/kwok/kustomize/stage/pod/fast"
	"sigs.k8s.io/kwok/pkg/config"
	kwok "sigs.k8s.io/kwok/pkg/kwok/cmd"
	"sigs.k8s.io/kwok/pkg/log"
)

// kwok plays the kubelets; its flags are read twice, as in its own main.
func runKwok() error {
	// Flags of the other parts, which every command here would take over.
	pflag.CommandLine = pflag.NewFlagSet("kwok", pflag.ExitOnError)
	flags := pflag.NewFlagSet("global", pflag.ContinueOnError)
	flags.ParseErrorsAllowlist.UnknownFlags = true
	flags.Usage = func() {}
	ctx, _ := log.InitFlags(context.Background(), flags)
	ctx, err := config.InitFlags(ctx, flags)
	if err != nil {
		return err
	}
	command := kwok.NewCommand(ctx)
	command.PersistentFlags().AddFlagSet(flags)
	return command.ExecuteContext(ctx)
}

func run(part string) int {
	commands := map[string]func() *cobra.Command{
		"kube-apiserver":          apiserver.NewAPIServerCommand,
		"kube-controller-manager": controllers.NewControllerManagerCommand,
		"kube-scheduler":          func() *cobra.Command { return scheduler.NewSchedulerCommand() },
		"kubectl":                 kubectl.NewDefaultKubectlCommand,
	}
	if command, known := commands[part]; known {
		return cli.Run(command())
	}
	switch part {
	case "kwok-stages":
		// What its kubelets do: nodes and pods are ready at once, pods that are deleted go at once.
		stages := []string{nodes.DefaultNodeInit, leases.DefaultNodeHeartbeatWithLease, pods.DefaultPodReady, pods.DefaultPodDelete}
		fmt.Print(strings.Join(stages, "\n---\n"))
		return 0
	case "etcd":
		etcdmain.Main(os.Args)
		return 0
	case "kwok":
		if err := runKwok(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return 0
	}
	fmt.Fprintf(os.Stderr, "unknown part %q: kube-apiserver, kube-controller-manager, kube-scheduler, etcd, kwok, kwok-stages or kubectl\n", part)
	return 2
}

func main() {
	if len(os.Args) < 2 {
		os.Exit(run(""))
	}
	// Each part finds its own name where it expects it.
	os.Args = os.Args[1:]
	os.Exit(run(os.Args[0]))
}
