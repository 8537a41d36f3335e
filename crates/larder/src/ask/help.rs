//! What `larder why -h`, `larder explain -h`, `larder purge -h`, `larder top -h` and `larder cluster -h` print.

use super::options::Verb;

/// The text for a verb, with its last line end.
pub fn text(verb: Verb) -> String {
    let own = match verb {
        Verb::Why => WHY,
        Verb::Explain => EXPLAIN,
        Verb::Purge => PURGE,
        Verb::Top => TOP,
        Verb::Cluster => CLUSTER,
    };
    format!("{own}{SERVER}")
}

const WHY: &str = "\
Usage: larder why [options]
Tells why requests of the last ten minutes were no hits.

";

const EXPLAIN: &str = "\
Usage: larder explain URL [options]
Tells what the running server would do with a request, and why; nothing is sent.

Request:
  URL               : http://HOST[:PORT]/PATH?QUERY, or https://
  -X METHOD         : another method than GET
  -H 'NAME: VALUE'  : a field of the request, such as \"Cookie: a=b\"; several times if wanted
  --from ADDRESS    : the address of the client (default: 127.0.0.1)

";

const PURGE: &str = "\
Usage: larder purge PAGES... [options]
Has the running server purge pages, and says how many it has met in memory; those on a disk alone go too.

Pages, each as often as wanted:
  URL               : the page of http://HOST/PATH or HOST/PATH, in all schemes, methods and variants; /PATH is
                      that of all hosts; with a * at the end, what is like that
  --prefix URL      : pages whose URLs begin so
  --match REGEX     : pages in whose path with query the regular expression is found
  --host HOST       : pages of the host
  --tag TAG         : pages with the tag
  --ban TEXT        : what a ban covers, such as \"obj.age > 1h\"; never softly
  --all             : all
  --soft            : they are stale, and not gone
  --everywhere      : unless all nodes of the cluster know it, who is missing, and exit code 2; 3 if all are away who do
                      not know it
  --zone ZONE       : in this zone alone, or in several; without it in all

";

const TOP: &str = "\
Usage: larder top [options]
Shows what the running server does, refreshed each second; q ends it. Without a terminal, once.

";

const CLUSTER: &str = "\
Usage: larder cluster status [options]
       larder cluster forget NODE [options]
\"status\" tells how the cluster of the running server is: its Redis or Valkey, the nodes, and how far each is behind.
The exit code is 0 if all is well; 1 if no server answers, or is in a cluster; 2 if the Redis is of no use or takes no
purges, a node is away, or this one uses no stored page.
\"forget\" takes a node off the list that was killed and does not come back, before its day is over. It purges nothing.

";

const SERVER: &str = "\
Server:
  -c, -p, -g        : the configuration of the server, as for \"larder -h\"
  --pid FILE        : its pid file
  -n FOLDER         : a \"larder varnishd\", by its folder
  -l, --listen ADDRESS
                    : a \"larder serve\", by the address that it listens at: 8080, 127.0.0.1:8080
  --json            : the answer for programs
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_command_has_its_own_options() {
        for (verb, has, has_not) in [
            (Verb::Cluster, "larder cluster status", "--tag"),
            (Verb::Why, "larder why", "--tag"),
            (Verb::Explain, "--from", "--tag"),
            (Verb::Purge, "--zone", "--from"),
        ] {
            let text = text(verb);
            assert!(
                text.contains(has) && text.contains("--pid") && text.contains("--listen") && !text.contains(has_not),
                "{text}"
            );
        }
    }
}
