"""Five families of small jobs. Each task of them has an occasion for every habit of the simulated solver.

In a text, `«name»` stands for one of the task's own values (a code, a count, a word), `«home»` for its folder.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Output:
    """A command that the task wants run: what it is for, the command, the file that it makes, and its content as a
    shell command prints it."""

    asks: str
    run: str
    path: str
    expected: str


@dataclass(frozen=True, slots=True)
class Family:
    """One kind of job.

    setup      shell that makes the environment's files in `«home»`
    log        awk's print statements for line i of a long log, and the one line (in its middle) that matters
    marker     how that line begins; the code follows
    script     a file of several lines with `$` and backticks, the arguments to try it with, and what it then prints
    slow       a script that takes a second, and the file that it makes
    """

    name: str
    story: str
    setup: str
    log: str
    log_line: str
    marker: str
    code_path: str
    script_asks: str
    script_path: str
    script: str
    script_try: str
    script_prints: str
    slow: str
    slow_path: str
    outputs: tuple[Output, ...]


FAMILIES: tuple[Family, ...] = (
    Family(
        name="release",
        story="A release is to be put together in «home».",
        setup="""printf '%s 3\\n%s «count»\\n' parser writer > «home»/parts.txt
printf 'zlib\\nnano\\n«word»\\nzlib\\n' > «home»/uses.txt""",
        log="«home»/build.log",
        log_line='printf "line %d: compiled unit %s%d without a warning\\n", '
        'i, substr("abcdefghij", i % 8 + 1, 3), i * 7 % 331',
        marker="release code:",
        code_path="«home»/code.txt",
        script_asks="prints `hello NAME from FOLDER`, where NAME is its argument and FOLDER the last part of the name "
        "of the folder that it is run in",
        script_path="«home»/greet.sh",
        script="""#!/bin/sh
folder=`pwd`
name=$1
echo "hello $name from ${folder##*/}"
""",
        script_try="«word»",
        script_prints="hello «word» from place",
        slow="«home»/pack.sh",
        slow_path="«home»/packed.txt",
        outputs=(
            Output("the sum of the second column of «home»/parts.txt", "awk '{s += $2} END {print s}' «home»/parts.txt",
                   "«home»/sum.txt", "echo $((3 + «count»))"),
            Output("the different words of «home»/uses.txt in alphabetical order", "sort -u «home»/uses.txt",
                   "«home»/libraries.txt", "printf 'nano\\nzlib\\n«word»\\n' | LC_ALL=C sort"),
        ),
    ),
    Family(
        name="backup",
        story="The nightly backup in «home» has to be taken over.",
        setup="""mkdir -p «home»/data
for n in 1 2 3 4; do echo "file $n «word»" > «home»/data/f$n.txt; done
head -c «count» /dev/zero > «home»/data/blob.bin""",
        log="«home»/backup.log",
        log_line='printf "%05d copied data/%s/%d.dat, checked, kept\\n", '
        'i, substr("monthlyweeklydaily", i % 12 + 1, 6), i * 13 % 577',
        marker="snapshot id:",
        code_path="«home»/snapshot.txt",
        script_asks="prints the number of files below the folder that is its argument, a colon, and that folder's name "
        "as given",
        script_path="«home»/count.sh",
        script="""#!/bin/sh
where=$1
n=`find "$where" -type f | wc -l`
echo "$((n)):$where"
""",
        script_try="«home»/data",
        script_prints="5:«home»/data",
        slow="«home»/verify.sh",
        slow_path="«home»/verified.txt",
        outputs=(
            Output("the size of «home»/data/blob.bin in bytes", "stat -c %s «home»/data/blob.bin", "«home»/size.txt",
                   "echo «count»"),
            Output("the names of the .txt files in «home»/data, one a line", "ls «home»/data | grep txt",
                   "«home»/names.txt", "printf 'f1.txt\\nf2.txt\\nf3.txt\\nf4.txt\\n'"),
        ),
    ),
    Family(
        name="settings",
        story="A service in «home» is to be set up.",
        setup="""printf 'port=«count»\\nname=old\\n' > «home»/defaults.conf
printf 'name=«word»\\n' > «home»/site.conf""",
        log="«home»/install.log",
        log_line='printf "[%d] unpacking %s-%d ... ok, configured\\n", '
        'i, substr("libsslcurlxmlpng", i % 11 + 1, 4), i * 11 % 499',
        marker="licence key:",
        code_path="«home»/licence.txt",
        script_asks="prints `starting NAME on PORT`, with NAME from the environment variable NAME (or `none` without "
        "it) and PORT from its first argument",
        script_path="«home»/start.sh",
        script="""#!/bin/sh
port=$1
name=${NAME:-none}
word=`echo starting`
echo "$word $name on $port"
""",
        script_try="«count»",
        script_prints="starting none on «count»",
        slow="«home»/migrate.sh",
        slow_path="«home»/migrated.txt",
        outputs=(
            Output("the value of `port` in «home»/defaults.conf", "grep '^port=' «home»/defaults.conf | cut -d= -f2",
                   "«home»/port.txt", "echo «count»"),
            Output("the lines of «home»/site.conf followed by those of «home»/defaults.conf",
                   "cat «home»/site.conf «home»/defaults.conf", "«home»/all.conf",
                   "printf 'name=«word»\\nport=«count»\\nname=old\\n'"),
        ),
    ),
    Family(
        name="ledger",
        story="The month's books in «home» are to be closed.",
        setup="""printf 'rent,700\\nfood,«count»\\nrent,50\\n' > «home»/ledger.csv
printf '«word»\\n' > «home»/owner.txt""",
        log="«home»/bookings.log",
        log_line='printf "booking %d: %s to stock, amount %d, entered and balanced\\n", '
        'i, substr("cashbankcard", i % 9 + 1, 4), i * 17 % 883',
        marker="voucher number:",
        code_path="«home»/voucher.txt",
        script_asks="prints its argument and the sum of the second column of «home»/ledger.csv, one blank between them",
        script_path="«home»/total.sh",
        script="""#!/bin/sh
label=$1
sum=`awk -F, '{s += $2} END {print s}' «home»/ledger.csv`
echo "$label $sum"
""",
        script_try="total",
        script_prints="total «total»",
        slow="«home»/close.sh",
        slow_path="«home»/closed.txt",
        outputs=(
            Output("the sum of the amounts of `rent` in «home»/ledger.csv",
                   "awk -F, '$1 == \"rent\" {s += $2} END {print s}' «home»/ledger.csv", "«home»/rent.txt", "echo 750"),
            Output("the word in «home»/owner.txt in capital letters", "tr a-z A-Z < «home»/owner.txt",
                   "«home»/capital.txt", "echo «word» | tr a-z A-Z"),
        ),
    ),
    Family(
        name="triage",
        story="An incident on the machine with «home» is to be written up.",
        setup="""printf 'GET /a 200\\nGET /b 500\\nGET /c 500\\n' > «home»/requests.txt
for n in $(seq «count»); do echo "GET /x 404"; done >> «home»/requests.txt
printf 'db\\n«word»\\ncache\\n' > «home»/services.txt""",
        log="«home»/service.log",
        log_line='printf "%06d %s worker %d answered within the limit\\n", '
        'i, substr("INFODEBGNOTE", i % 3 * 4 + 1, 4), i * 19 % 271',
        marker="incident id:",
        code_path="«home»/incident.txt",
        script_asks="prints how many lines of «home»/requests.txt end with the status that is its argument, as "
        "`STATUS=NUMBER`",
        script_path="«home»/status.sh",
        script="""#!/bin/sh
status=$1
n=`grep -c " $status\\$" «home»/requests.txt`
echo "$status=$n"
""",
        script_try="404",
        script_prints="404=«count»",
        slow="«home»/collect.sh",
        slow_path="«home»/collected.txt",
        outputs=(
            Output("the addresses of «home»/requests.txt that were answered with 500, one a line",
                   "awk '$3 == 500 {print $2}' «home»/requests.txt", "«home»/failed.txt", "printf '/b\\n/c\\n'"),
            Output("the number of lines of «home»/services.txt", "grep -c . «home»/services.txt", "«home»/number.txt",
                   "echo 3"),
        ),
    ),
)
