# Gearman::Client, told what to do line by line; see tests/system/foreign.py for the words.
# It cannot ask for a status by unique, send an echo, or submit for later.
use strict;
use warnings;
use Gearman::Client;
use Gearman::Task;

$| = 1;
my ($server) = @ARGV;
my $client = Gearman::Client->new(job_servers => [$server], exceptions => 1);

sub say_line { print "> ", join(" ", @_), "\n"; }

sub task {
    my ($function, $data, $unique, %more) = @_;
    return Gearman::Task->new(
        $function,
        \$data,
        {
            ($unique eq "." ? () : (uniq => $unique)),
            on_complete  => sub { say_line("complete", ${ $_[0] }) },
            on_data      => sub { say_line("data", ${ $_[0] }) },
            on_warning   => sub { say_line("warning", ${ $_[0] }) },
            on_status    => sub { say_line("progress", @_) },
            on_exception => sub { say_line("exception", $_[0]) },
            on_fail      => sub { say_line("fail") },
            %more,
        }
    );
}

while (my $line = <STDIN>) {
    chomp $line;
    my ($word, @rest) = split / /, $line;
    if ($word eq "run") {
        my ($priority, $function, $unique, $data) = @rest;
        my $tasks = $client->new_task_set;
        $tasks->add_task(task($function, $data, $unique, priority => $priority));
        $tasks->wait;
    }
    elsif ($word eq "twins") {
        my ($function, $unique, $data) = @rest;
        my $tasks = $client->new_task_set;
        $tasks->add_task(task($function, $data, $unique)) for 1 .. 2;
        $tasks->wait;
    }
    elsif ($word eq "background") {
        my ($priority, $function, $unique, $data) = @rest;
        my $handle = $client->dispatch_background(task($function, $data, $unique, priority => $priority));
        say_line("created", (split m{//}, $handle)[1]);
    }
    elsif ($word eq "status") {
        my $status = $client->get_status("$server//$rest[0]");
        my $progress = $status->progress || [0, 0];
        say_line("status", $status->known ? 1 : 0, $status->running ? 1 : 0, @$progress);
    }
    else {
        say_line("cannot");
    }
    say_line("ok");
}
