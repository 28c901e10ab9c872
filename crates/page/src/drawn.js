for (const chart of document.querySelectorAll(".chart[data-x]")) showValues(chart);
